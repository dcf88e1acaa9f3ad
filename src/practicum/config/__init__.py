"""Typed run configs: strict, frozen, read from YAML and `key=value` overrides."""
