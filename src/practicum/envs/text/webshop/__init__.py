"""WebShop: find, configure and buy the product that an instruction asks for."""
