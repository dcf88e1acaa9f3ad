"""Environments: what agents act in."""
