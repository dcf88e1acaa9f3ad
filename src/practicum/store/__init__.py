"""Reads and writes runs; owns the file format."""
