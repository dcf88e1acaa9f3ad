"""The shipped desktop tasks: families of them, each varied by a number."""
