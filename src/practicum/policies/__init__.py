"""Models: an inference server, programmed players, recordings."""
