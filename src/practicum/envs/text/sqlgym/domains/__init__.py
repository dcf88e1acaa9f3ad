"""The generated databases: what they hold and how their tables are spoken of."""
