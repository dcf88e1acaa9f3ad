"""Where a gateway's desktops are: pools of this process, and bridges.

A bridge is a further gateway, on a host that has room for desktops. To this one it is one
more place that lends desktops and relays to them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from practicum.core.breaker import Breaker
from practicum.core.metrics import Sample
from practicum.desktops.computer import Machine
from practicum.desktops.gateway.client import GatewayClient
from practicum.desktops.gateway.doors import Doors
from practicum.desktops.pool import Pool
from practicum.desktops.provider import DesktopLease

MAX_FAILURES = 3
REST_S = 15.0


class RoutedMachine(Machine, Protocol):
    """A machine whose ports can be reached."""

    @property
    def doors(self) -> Doors:
        """Where, while it is up; new after each reset."""
        ...


@dataclass(frozen=True, slots=True)
class Held:
    """A desktop of a host, held for someone."""

    host: Host
    lease: DesktopLease
    doors: Doors


class Host(Protocol):
    """A place that lends desktops."""

    @property
    def name(self) -> str:
        """As in the config, the metrics and the audit log."""
        ...

    @property
    def size(self) -> int:
        """Desktops it can lend at a time."""
        ...

    @property
    def num_free(self) -> int:
        """Desktops it could lend soon; negative when callers wait there."""
        ...

    @property
    def breaker(self) -> Breaker:
        """Whether it is worth asking."""
        ...

    async def acquire(self, wait_s: float) -> Held:
        """Take a desktop; raises `MachineError`, of kind `busy` if there is none in time."""
        ...

    def samples(self) -> list[Sample]:
        """What its desktops do, for metrics."""
        ...

    def open(self) -> None:
        """Get ready; idempotent."""
        ...

    async def aclose(self) -> None:
        """Let go of everything; idempotent."""
        ...


class PoolHost:
    """Desktops of a pool in this process."""

    def __init__(self, pool: Pool[RoutedMachine]) -> None:
        self.pool = pool
        self.breaker = Breaker(MAX_FAILURES, REST_S)

    @property
    def name(self) -> str:
        """As in the config."""
        return self.pool.name

    @property
    def size(self) -> int:
        """Desktops it can lend at a time."""
        return self.pool.config.size

    @property
    def num_free(self) -> int:
        """Desktops it could lend soon."""
        return self.pool.num_free

    async def acquire(self, wait_s: float) -> Held:
        """Take a desktop of the pool."""
        lease = await self.pool.acquire(wait_s)
        return Held(self, lease, lease.machine.doors)

    def samples(self) -> list[Sample]:
        """What its desktops do."""
        return self.pool.samples()

    def open(self) -> None:
        """Start spares."""
        self.pool.open()

    async def aclose(self) -> None:
        """Take all desktops down."""
        await self.pool.aclose()


class BridgeHost:
    """Desktops behind a further gateway."""

    def __init__(self, name: str, client: GatewayClient, size: int) -> None:
        self.name = name
        self.size = size
        self.breaker = Breaker(MAX_FAILURES, REST_S)
        self._client = client

    @property
    def num_free(self) -> int:
        """What this gateway has not taken there; others may have."""
        return self.size - self._client.num_leases

    async def acquire(self, wait_s: float) -> Held:
        """Take a desktop there."""
        lease = await self._client.take(wait_s)
        return Held(self, lease, lease.doors)

    def samples(self) -> list[Sample]:
        """How many are held; the bridge's own metrics say more."""
        labels = {"host": self.name, "state": "leased"}
        return [("desktops", labels, float(self._client.num_leases))]

    def open(self) -> None:
        """Nothing to be done: the bridge keeps its own spares."""

    async def aclose(self) -> None:
        """Give back what is held there."""
        await self._client.aclose()
