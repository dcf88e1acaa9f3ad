"""Models whose weights live in this process: one module that is sampled from and trained."""
