"""Things given out that come back by themselves when they are no longer used."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar


class Expiring(Protocol):
    """What the book keeps on each lease."""

    expires_s: float
    """On the clock of the event loop."""
    num_users: int
    """Calls under way; a lease in use does not run out."""


Key = TypeVar("Key")
Lease = TypeVar("Lease", bound=Expiring)


class LeaseBook(Generic[Key, Lease]):
    """Leases that each last `ttl_s` from their last use."""

    def __init__(self, ttl_s: float) -> None:
        self.ttl_s = ttl_s
        # In the order in which they run out, since all last equally long.
        self._leases: OrderedDict[Key, Lease] = OrderedDict()

    def __len__(self) -> int:
        return len(self._leases)

    def ids(self) -> list[Key]:
        """The ids of all leases."""
        return list(self._leases)

    def values(self) -> list[Lease]:
        """All leases, the next to run out first."""
        return list(self._leases.values())

    def add(self, key: Key, lease: Lease) -> None:
        """Enter a lease for its full time."""
        self._leases[key] = lease
        self.renew(key)

    def get(self, key: Key) -> Lease | None:
        """Find a lease."""
        return self._leases.get(key)

    def pop(self, key: Key) -> Lease | None:
        """Strike a lease out."""
        return self._leases.pop(key, None)

    def renew(self, key: Key) -> None:
        """Let a lease last its full time from now, if it is still there."""
        lease = self._leases.get(key)
        if lease is not None:
            lease.expires_s = now_s() + self.ttl_s
            self._leases.move_to_end(key)

    def until_first_s(self) -> float:
        """How long nothing can run out."""
        first = next(iter(self._leases.values()), None)
        wait_s = self.ttl_s if first is None else first.expires_s - now_s()
        return max(wait_s, 0.01)

    async def sweep_for_ever(self, end: Callable[[Key, Lease], Awaitable[object]]) -> None:
        """End leases the moment they run out; `end` strikes them out."""
        while True:
            await asyncio.sleep(self.until_first_s())
            for key, lease in self._run_out():
                await end(key, lease)

    def _run_out(self) -> list[tuple[Key, Lease]]:
        at_s = now_s()
        for key in [k for k, x in self._leases.items() if x.num_users and x.expires_s <= at_s]:
            self.renew(key)
        run_out = []
        for key, lease in self._leases.items():
            if lease.expires_s > at_s:
                break
            run_out.append((key, lease))
        return run_out


def now_s() -> float:
    """The event loop's clock."""
    return asyncio.get_running_loop().time()
