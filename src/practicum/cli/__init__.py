"""The command line: one file per command. A command parses, then calls one function."""
