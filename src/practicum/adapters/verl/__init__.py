"""verl: our episodes inside its agent loop, our run configs as its data and settings."""
