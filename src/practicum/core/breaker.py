"""Leaving a party alone that failed several times in a row."""

from __future__ import annotations

import time
from collections.abc import Callable


class Breaker:
    """Closed while calls succeed; after `max_failures` in a row it opens for `rest_s`.

    Then one call is let through as a trial: if it succeeds all may call again, otherwise the
    rest begins anew. Whoever is refused should say so and not wait.
    """

    def __init__(
        self,
        max_failures: int = 5,
        rest_s: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_failures = max_failures
        self._rest_s = rest_s
        self._clock = clock
        self._num_failures = 0
        self._open_until_s: float | None = None

    @property
    def is_open(self) -> bool:
        """It failed too often and has not succeeded since."""
        return self._open_until_s is not None

    @property
    def wait_s(self) -> float:
        """Until when nobody may call; 0 if now."""
        if self._open_until_s is None:
            return 0.0
        return max(0.0, self._open_until_s - self._clock())

    def allow(self) -> bool:
        """Whether to call now; the call's outcome must be told."""
        if self._open_until_s is None:
            return True
        if self.wait_s > 0:
            return False
        self._open_until_s = self._clock() + self._rest_s  # one trial, the others keep waiting
        return True

    def succeeded(self) -> None:
        """Tell that a call went well."""
        self._num_failures = 0
        self._open_until_s = None

    def failed(self) -> bool:
        """Tell that a call failed; True if that opens it."""
        self._num_failures += 1
        if self._num_failures < self._max_failures:
            return False
        self._open_until_s = self._clock() + self._rest_s
        return self._num_failures == self._max_failures
