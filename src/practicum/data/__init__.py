"""Experts and logs become conversations to learn from; checks of those."""
