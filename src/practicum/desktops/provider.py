"""Where desktops come from: a pool here, a gateway, or a vendor's cluster behind its SDK.

What the environment layer needs from any of them is `acquire`, and on the lease it returns
`computer`, `renew` and `release`. A vendor's SDK is plugged in by a class with these methods;
nothing needs to be registered or inherited. `leased` adds the rest: a heartbeat while the
desktop is in use, release whatever happens, and a name for a desktop that was lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar

from practicum.core.errors import MachineError
from practicum.core.leases import now_s
from practicum.desktops.computer import Computer

logger = logging.getLogger(__name__)

LOST_LEASE = "lost-lease"
"""The kind of fault when a desktop was taken back: nobody renewed it, or its host is gone."""
BUSY = "busy"
"""The kind of fault when no desktop came free in time."""


DESKTOP_LOST = "desktop-lost"
"""The kind of fault when a desktop broke while it was in use and nothing says why."""
TRANSIENT = frozenset({"connection", "timeout", BUSY})
"""Kinds of fault that say nothing about the desktop, only about the way to it."""


class DesktopLease(Protocol):
    """One desktop, for one user, until it is released or no longer renewed."""

    @property
    def id(self) -> str:
        """A name that is never given twice."""
        ...

    @property
    def ttl_s(self) -> float:
        """It must be renewed more often than this."""
        ...

    @property
    def computer(self) -> Computer:
        """What to act on."""
        ...

    async def renew(self) -> None:
        """Keep it.

        A `MachineError` of any kind but `connection`, `timeout` and `busy` says that the
        desktop is gone for good, and why.
        """
        ...

    async def release(self) -> None:
        """Give it back; idempotent, and raises nothing: what is not given back runs out."""
        ...


class DesktopProvider(Protocol):
    """Gives out desktops in their first state. Shared by all episodes of a process."""

    async def acquire(self) -> DesktopLease:
        """Take a desktop; waits within bounds, then a `MachineError` of kind `busy`."""
        ...

    async def aclose(self) -> None:
        """Give up what is still held; idempotent."""
        ...


Lease = TypeVar("Lease", bound=DesktopLease)


@asynccontextmanager
async def leased(lease: Lease) -> AsyncIterator[Lease]:
    """Hold a lease for the length of a block: renewed all the while, released at its end.

    If the desktop was lost, a `MachineError` that comes out of the block is replaced by the
    one that says so: "connection refused" would hide why.
    """
    keeper = asyncio.create_task(_keep(lease), name=f"keep {lease.id}")
    try:
        yield lease
    except MachineError as error:
        lost = _result(keeper)
        if lost is not None and lost.kind != error.kind:
            raise lost from error
        raise
    finally:
        keeper.cancel()
        await asyncio.gather(keeper, return_exceptions=True)
        # The desktop goes back also if the block is being cancelled, or even cancelled twice.
        await asyncio.shield(lease.release())


async def _keep(lease: DesktopLease) -> MachineError:
    """Renew a lease until it is lost; return why."""
    renewed_s = now_s()
    while True:
        await asyncio.sleep(lease.ttl_s / 3)
        try:
            await lease.renew()
            renewed_s = now_s()
        except MachineError as error:
            if error.kind not in TRANSIENT:
                logger.warning("desktop %s is lost: %s", lease.id, error)
                return error
            if now_s() - renewed_s > lease.ttl_s:
                logger.warning("desktop %s could not be renewed: %s", lease.id, error)
                return MachineError(
                    f"desktop {lease.id} could not be renewed for {lease.ttl_s:g} s and was "
                    f"taken back: {error}",
                    kind=LOST_LEASE,
                )
            logger.info("desktop %s was not renewed, trying again: %s", lease.id, error)


def _result(keeper: asyncio.Task[MachineError]) -> MachineError | None:
    return keeper.result() if keeper.done() and not keeper.cancelled() else None
