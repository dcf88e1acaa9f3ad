"""Real machines with a screen: one `Computer` protocol, several bodies, pools of them."""
