"""TRL: our environments under its `GRPOTrainer`, one action format and tokens as sampled."""
