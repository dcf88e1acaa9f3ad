"""Other frameworks: the only code that imports them. Each folder can be deleted by itself."""
