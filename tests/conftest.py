"""Settings for all tests."""

import os

from hypothesis import settings

# Tests share the machine, two processes at a time: threads of models this small would spend
# their time waiting for each other. Torch reads this when it is first imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The same examples every time: a red run is red again when it is looked into.
settings.register_profile("practicum", derandomize=True, deadline=None)
settings.load_profile("practicum")
