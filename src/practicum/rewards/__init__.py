"""Judges of finished episodes."""
