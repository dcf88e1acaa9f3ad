"""The vocabulary: dataclasses, protocols and errors. Standard library only."""
