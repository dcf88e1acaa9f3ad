"""Environments over the wire: one client for every server, one server for every environment."""
