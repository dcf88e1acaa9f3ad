"""Tasks, observations, actions and graders on a `Computer`."""
