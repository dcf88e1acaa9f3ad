"""Worlds made of text."""
