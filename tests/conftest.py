"""Settings for all tests."""

from hypothesis import settings

# The same examples every time: a red run is red again when it is looked into.
settings.register_profile("practicum", derandomize=True, deadline=None)
settings.load_profile("practicum")
