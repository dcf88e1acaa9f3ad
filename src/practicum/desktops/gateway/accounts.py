"""Who may use a gateway, and how much of it."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from practicum.core.tokens import bears


@dataclass(eq=False)
class Account:
    """A token and what it is good for; shown and logged by its name alone."""

    name: str
    token: str = field(repr=False)
    max_leases: int
    requests_per_s: float | None = None
    num_leases: int = 0
    """Held or being waited for."""
    _allowance: float = field(default=1.0, repr=False)
    _refilled_s: float = field(default=0.0, repr=False)

    def spend(self) -> int | None:
        """Count a request; seconds to wait if there were too many, else None."""
        rate = self.requests_per_s
        if rate is None:
            return None
        at_s = time.monotonic()
        burst = max(1.0, rate)
        self._allowance = min(burst, self._allowance + (at_s - self._refilled_s) * rate)
        self._refilled_s = at_s
        if self._allowance < 1:
            # Whole seconds: that is all `Retry-After` can say.
            return max(1, math.ceil((1 - self._allowance) / rate))
        self._allowance -= 1
        return None


class Accounts:
    """All tokens of a gateway."""

    def __init__(self, accounts: Sequence[Account]) -> None:
        self._accounts = tuple(accounts)

    def find(self, authorization: str | None) -> Account | None:
        """Whose token this is; every one is compared, so that time tells nothing."""
        found = [account for account in self._accounts if bears(authorization, account.token)]
        return found[0] if found else None

    def __iter__(self) -> Iterator[Account]:
        return iter(self._accounts)
