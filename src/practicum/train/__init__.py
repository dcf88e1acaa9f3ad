"""Turns episodes into newer weights: batches, losses, algorithms, the loop."""
