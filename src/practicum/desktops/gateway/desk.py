"""The gateway's desk: who holds which desktop, on what terms, until when.

A lease belongs to the account that took it. It lasts `ttl_s` from its last use or heartbeat.
When its desktop breaks, the host gets it back at once and the lease stays on as a fault, so
that its holder is told what happened and not merely that it is unknown.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from practicum.core.errors import MachineError
from practicum.core.leases import LeaseBook, now_s
from practicum.core.metrics import Metrics
from practicum.desktops.gateway.accounts import Account
from practicum.desktops.gateway.audit import Audit
from practicum.desktops.gateway.hosts import Held, Host
from practicum.desktops.pool import BusyError
from practicum.desktops.provider import LOST_LEASE, TRANSIENT

logger = logging.getLogger(__name__)


class QuotaError(MachineError):
    """The account holds as many desktops as it may."""


@dataclass(eq=False)
class Lease:
    """A desktop in an account's hands."""

    id: str
    account: Account
    held: Held
    key: str | None
    """The caller's own name for it: asking again with the same one gives the same lease."""
    taken_s: float
    expires_s: float = 0.0
    num_users: int = 0
    num_requests: int = 0
    fault: MachineError | None = None
    """Why the desktop is gone."""
    sessions: dict[str, aiohttp.ClientSession] = field(default_factory=dict)
    checking: asyncio.Task[None] | None = None

    @property
    def ttl_s(self) -> float:
        """How long the host keeps it without being asked."""
        return self.held.lease.ttl_s

    def session(self, port: str) -> aiohttp.ClientSession:
        """Connections to one of its ports, which end with the lease."""
        if port not in self.sessions:
            self.sessions[port] = self.held.doors[port].connect()
        return self.sessions[port]


class Desk:
    """Gives out leases and takes them back."""

    def __init__(
        self,
        hosts: Sequence[Host],
        ttl_s: float,
        max_waiting: int,
        metrics: Metrics,
        audit: Audit,
    ) -> None:
        self.hosts = hosts
        self.leases: LeaseBook[str, Lease] = LeaseBook(ttl_s)
        self.num_waiting = 0
        self._max_waiting = max_waiting
        self._metrics = metrics
        self._audit = audit
        self._tasks: set[asyncio.Task[None]] = set()

    def open(self) -> None:
        """Begin to watch leases; hosts get ready."""
        for host in self.hosts:
            host.open()
        self._spawn(self.leases.sweep_for_ever(self._run_out))

    async def aclose(self) -> None:
        """End all leases, let go of all hosts."""
        await asyncio.gather(*(self.end(lease, "shutdown") for lease in self.leases.values()))
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(host.aclose() for host in self.hosts))

    async def grant(self, account: Account, key: str | None, wait_s: float) -> Lease:
        """Give out a desktop; raises `QuotaError`, `BusyError` or another `MachineError`."""
        known = self._known(account, key)
        if known is not None:
            return known
        if account.num_leases >= account.max_leases:
            raise QuotaError(
                f"{account.name} may hold {account.max_leases} desktops at a time", kind="quota"
            )
        if self.num_waiting >= self._max_waiting:
            raise BusyError(f"{self.num_waiting} callers wait for a desktop already")
        account.num_leases += 1
        self.num_waiting += 1
        try:
            held = await self._acquire(wait_s)
        except BaseException:
            account.num_leases -= 1
            raise
        finally:
            self.num_waiting -= 1
        known = self._known(account, key)
        if known is not None:  # the same request came twice and both waited
            account.num_leases -= 1
            await held.lease.release()
            return known
        lease = Lease(secrets.token_hex(16), account, held, key, now_s())
        self.leases.add(lease.id, lease)
        self._metrics.count("gateway_leases_total", host=held.host.name, token=account.name)
        self._note("lease", lease)
        return lease

    def find(self, account: Account, lease_id: str) -> Lease:
        """Find an account's lease, or raise `MachineError`."""
        lease = self.leases.get(lease_id)
        if lease is None or lease.account is not account:
            raise MachineError(
                f"unknown lease {lease_id[:32]}: it was released, it was left unused for more "
                f"than {self.leases.ttl_s:g} s, or the gateway restarted; take a new one",
                kind=LOST_LEASE,
            )
        if lease.fault is not None:
            raise lease.fault
        return lease

    async def renew(self, lease: Lease) -> None:
        """Let a lease last its full time from now, if its desktop still works."""
        self.leases.renew(lease.id)
        await self.check(lease)
        if lease.fault is not None:
            raise lease.fault

    async def check(self, lease: Lease) -> None:
        """Look whether the desktop still works; sets `fault` if not. One look at a time."""
        if lease.checking is None or lease.checking.done():
            lease.checking = self._spawn(self._check(lease))
        await asyncio.shield(lease.checking)

    async def end(self, lease: Lease, reason: str) -> None:
        """Take a lease back; idempotent."""
        if self.leases.pop(lease.id) is None:
            return
        lease.account.num_leases -= 1
        self._metrics.count("gateway_leases_ended_total", reason=reason)
        self._note("end", lease, reason=reason, held_s=round(now_s() - lease.taken_s, 3))
        await self._let_go(lease)

    def _known(self, account: Account, key: str | None) -> Lease | None:
        if key is None:
            return None
        own = (x for x in self.leases.values() if x.account is account and x.key == key)
        return next((lease for lease in own if lease.fault is None), None)

    async def _acquire(self, wait_s: float) -> Held:
        """Take a desktop where most are free; of hosts that fail the next is asked."""
        deadline_s = now_s() + wait_s
        busy: BusyError | None = None
        last: MachineError | None = None
        for host in sorted(self.hosts, key=lambda h: h.num_free / h.size, reverse=True):
            if (busy and host.num_free <= 0) or not host.breaker.allow():
                continue
            try:
                held = await host.acquire(max(0.0, deadline_s - now_s()))
            except BusyError as error:
                host.breaker.succeeded()
                busy = error
            except MachineError as error:
                host.breaker.failed()
                logger.warning("host %s gave no desktop: %s", host.name, error)
                self._metrics.count("gateway_host_faults_total", host=host.name, kind=error.kind)
                last = error
            else:
                host.breaker.succeeded()
                return held
        if busy is not None:
            raise busy
        rest_s = min((host.breaker.wait_s for host in self.hosts), default=0.0)
        why = f": {last}" if last else f" for {rest_s:.0f} s"
        raise MachineError(f"no host has a working desktop{why}", kind="no-desktops")

    async def _check(self, lease: Lease) -> None:
        try:
            await lease.held.lease.renew()
        except MachineError as error:
            if error.kind in TRANSIENT or self.leases.get(lease.id) is None:
                return  # only the way there is broken, or it was given back meanwhile
            if lease.fault is not None:
                return
            lease.fault = error
            self._metrics.count(
                "gateway_desktops_lost_total", host=lease.held.host.name, kind=error.kind
            )
            self._note("lost", lease, kind=error.kind, message=str(error))
            await self._let_go(lease)

    async def _let_go(self, lease: Lease) -> None:
        """End what is under way on a desktop, then give it back to its host."""
        sessions, lease.sessions = lease.sessions, {}
        for session in sessions.values():
            await session.close()
        await lease.held.lease.release()

    async def _run_out(self, _: str, lease: Lease) -> None:
        logger.info("lease %s of %s ran out", lease.id, lease.account.name)
        # Not waited for: a bridge that answers slowly must not hold up the others.
        self._spawn(self.end(lease, "expired"))

    def _note(self, event: str, lease: Lease, **more: object) -> None:
        self._audit.write(
            event,
            token=lease.account.name,
            lease=lease.id,
            host=lease.held.host.name,
            desktop=lease.held.lease.id,
            requests=lease.num_requests,
            **more,
        )

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def retry_after_s(error: MachineError) -> int:
    """Whole seconds to wait before asking again."""
    asked_s = error.retry_after_s if isinstance(error, BusyError) else 1.0
    return max(1, round(asked_s))
