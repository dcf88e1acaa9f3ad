"""Scripts that make what the repository ships."""
