"""verifiers: our environments as a taskset, an environment and a harness of its kind."""
