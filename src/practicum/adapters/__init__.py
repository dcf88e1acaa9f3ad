"""Other frameworks' ways into our environments: the only code that imports those frameworks."""
