"""Prompting and parsing around a policy: one file per action format."""
