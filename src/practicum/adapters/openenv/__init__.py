"""OpenEnv: our environments behind its server, for its clients and the trainers that use them."""
