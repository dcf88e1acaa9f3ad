"""Evaluation: playing a panel, and saying what the result is worth."""
