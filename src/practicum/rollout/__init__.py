"""Running attempts: one episode, a group, many at once."""
