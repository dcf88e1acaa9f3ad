"""ALFWorld: household tasks in words, in a built-in world or in TextWorld's engine."""
