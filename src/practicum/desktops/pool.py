"""Machines kept ready, and lent to one user at a time.

A machine is started, lent, reset and lent again. It is checked before each hand-over and
after each use; one that fails is put in quarantine: named, counted, taken down and replaced.
Callers wait in line, within bounds. A lease that nobody renews ends, and its machine goes
back. When machines keep failing the pool rests and says why, instead of starting for ever.

```
make ─ start ─▶ ready ─ check ─▶ lent ─ check, reset ─▶ ready
          └──────────────┴───────────────┴─ failed ─▶ quarantine ─ stop
```

Everything happens in one event loop; the pool owns every task it starts and `aclose` ends
them all and takes every machine down.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from practicum.config.pool import PoolConfig
from practicum.core.breaker import Breaker
from practicum.core.errors import EpisodeError, MachineError
from practicum.core.leases import LeaseBook
from practicum.core.metrics import Metrics, Sample
from practicum.desktops.computer import Computer, Machine
from practicum.desktops.provider import BUSY, DESKTOP_LOST, LOST_LEASE, TRANSIENT, leased

logger = logging.getLogger(__name__)

TTL_S = 300.0
"""A lease that is not renewed for so long ends, and its machine is reset for the next."""
STOP_ATTEMPTS = 3
NUM_REMEMBERED = 100
"""Machines in quarantine that are remembered by name; all are counted."""

M = TypeVar("M", bound=Machine)


class BusyError(MachineError):
    """There is no machine to be had now."""

    def __init__(self, message: str, retry_after_s: float = 1.0) -> None:
        super().__init__(message, kind=BUSY)
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A machine that failed."""

    machine_id: str
    during: str
    """`start`, `check`, `reset` or `use`."""
    kind: str
    message: str
    unix_s: float


@dataclass(eq=False)
class PoolLease(Generic[M]):
    """A machine in someone's hands."""

    id: str
    machine: M
    pool: Pool[M] = field(repr=False)
    expires_s: float = 0.0
    num_users: int = 0
    lost: MachineError | None = None
    """Why it is no longer theirs."""

    @property
    def ttl_s(self) -> float:
        """It must be renewed more often than this."""
        return self.pool.ttl_s

    @property
    def computer(self) -> Computer:
        """What to act on; of no use once the lease is lost."""
        if self.lost is not None:
            raise self.lost
        return self.machine.computer

    async def renew(self) -> None:
        """Keep it, if it still works."""
        await self.pool.renew(self)

    async def release(self) -> None:
        """Give it back; idempotent."""
        self.pool.take_back(self)


class Pool(Generic[M]):
    """Machines of one kind on one host."""

    def __init__(
        self,
        make: Callable[[], M],
        config: PoolConfig | None = None,
        *,
        ttl_s: float = TTL_S,
        metrics: Metrics | None = None,
        name: str = "local",
    ) -> None:
        self.config = config or PoolConfig()
        self.ttl_s = ttl_s
        self.name = name
        self.metrics = metrics or Metrics()
        self.quarantine: deque[Quarantined] = deque(maxlen=NUM_REMEMBERED)
        self._make = make
        self._machines: dict[str, M] = {}
        """All that run or may still run, also those being taken down."""
        self._ready: deque[M] = deque()
        self._waiting: deque[asyncio.Future[M]] = deque()
        self._leases: LeaseBook[str, PoolLease[M]] = LeaseBook(ttl_s)
        self._doing: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        # Starting and resetting are heavy; more at once would only slow each other down.
        self._slots = asyncio.Semaphore(self.config.starting_at_once)
        self._breaker = Breaker(self.config.max_failures, self.config.rest_s)
        self._timer: asyncio.TimerHandle | None = None
        self._is_open = False
        self._is_closed = False

    async def __aenter__(self) -> Pool[M]:
        self.open()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.aclose()

    def open(self) -> None:
        """Begin to start spares; idempotent, and `acquire` does it too."""
        if self._is_closed:
            raise self._closed()
        if self._is_open:
            return
        self._is_open = True
        self._spawn("sweep", self._leases.sweep_for_ever(self._run_out))
        self._tend()

    async def aclose(self) -> None:
        """Turn away who waits, take every machine down; idempotent."""
        self._is_open, self._is_closed = False, True
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_exception(self._closed())
        if self._timer is not None:
            self._timer.cancel()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for lease in self._leases.values():
            self._leases.pop(lease.id)
            lease.lost = self._closed()
        self._ready.clear()
        await asyncio.gather(*(self._take_down(m) for m in list(self._machines.values())))

    @asynccontextmanager
    async def lease(self, wait_s: float | None = None) -> AsyncIterator[PoolLease[M]]:
        """Have a machine for the length of a block."""
        async with leased(await self.acquire(wait_s)) as lease:
            yield lease

    async def acquire(self, wait_s: float | None = None) -> PoolLease[M]:
        """Take the next machine; it is given back by `release` or for want of `renew`."""
        self.open()
        if len(self._waiting) >= self.config.max_waiting:
            raise self._busy(f"{len(self._waiting)} callers wait for a desktop already")
        waiter: asyncio.Future[M] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        self._tend()
        try:
            await self._wait(waiter, wait_s)
        except BaseException:
            self._withdraw(waiter)
            raise
        machine = waiter.result()
        if not self._is_open:
            raise self._closed()
        lease = PoolLease(f"{machine.id}-{secrets.token_hex(4)}", machine, self)
        self._leases.add(lease.id, lease)
        self.metrics.count("desktop_leases_total", host=self.name)
        return lease

    async def renew(self, lease: PoolLease[M]) -> None:
        """Let a lease last its full time from now; raises `MachineError` if it is lost."""
        if lease.lost is not None:
            raise lease.lost
        self._leases.renew(lease.id)
        try:
            await _within(self.config.check_timeout_s, lease.machine.check)
        except Exception as error:
            if lease.lost is None:
                lost = _named(error, f"desktop {lease.machine.id} broke while in use")
                if lost.kind in TRANSIENT:
                    lost = MachineError(str(lost), kind=DESKTOP_LOST)
                lease.lost = lost
                self._leases.pop(lease.id)
                self._put_in_quarantine(lease.machine, "use", lease.lost)
            raise lease.lost from error

    def take_back(self, lease: PoolLease[M]) -> None:
        """Have a lent machine checked and reset in the background; idempotent."""
        if self._leases.pop(lease.id) is None:
            return
        lease.lost = lease.lost or MachineError(f"lease {lease.id} was released", kind=LOST_LEASE)
        self._spawn("prepare", self._recycle(lease.machine))

    @property
    def num_free(self) -> int:
        """Machines that could be had soon, less those who wait; negative when there is a queue."""
        if self._breaker.is_open and not self._machines:
            return 0
        room = self.config.size - len(self._machines)
        return len(self._ready) + self._doing["prepare"] + room - len(self._waiting)

    def samples(self) -> list[Sample]:
        """How many machines do what, for metrics."""
        states = {
            "ready": len(self._ready),
            "leased": len(self._leases),
            "preparing": self._doing["prepare"],
            "checking": self._doing["check"],
            "stopping": self._doing["stop"],
        }
        found: list[Sample] = [
            ("desktops", {"host": self.name, "state": state}, float(number))
            for state, number in states.items()
        ]
        return [*found, ("desktop_waiting", {"host": self.name}, float(len(self._waiting)))]

    async def _wait(self, waiter: asyncio.Future[M], wait_s: float | None) -> None:
        limit_s = self.config.wait_s if wait_s is None else min(wait_s, self.config.wait_s)
        try:
            async with asyncio.timeout(limit_s):
                await asyncio.shield(waiter)
        except TimeoutError as error:
            if waiter.done():  # it came at the very last moment
                return
            raise self._busy(f"no desktop came free within {limit_s:g} s") from error

    def _withdraw(self, waiter: asyncio.Future[M]) -> None:
        """Forget a caller; what was meant for it goes to the next."""
        if waiter in self._waiting:
            self._waiting.remove(waiter)
        if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
            self._ready.appendleft(waiter.result())
            self._tend()
        waiter.cancel()

    def _closed(self) -> MachineError:
        return MachineError(f"the pool {self.name!r} was closed", kind="closed")

    def _busy(self, what: str) -> BusyError:
        held = len(self._leases)
        return BusyError(f"pool {self.name!r}: {what}; {held} of {self.config.size} are lent")

    def _tend(self) -> None:
        """Start whatever is called for; called after every change."""
        if not self._is_open:
            return
        while self._ready and len(self._waiting) > self._doing["check"]:
            self._spawn("check", self._hand_over(self._ready.popleft()))
        on_the_way = len(self._ready) + self._doing["prepare"] + self._doing["check"]
        wanted = len(self._waiting) + self.config.spares - on_the_way
        while wanted > 0 and len(self._machines) < self.config.size and self._breaker.allow():
            wanted -= 1
            self._start_one()
        if self._breaker.is_open and not self._machines:
            self._turn_away()

    def _start_one(self) -> None:
        try:
            machine = self._make()
        except Exception as error:  # noqa: BLE001 - a factory may fail in any way; counted
            self._failed("unnamed", "start", _named(error, "no desktop could be made"))
            return
        self._machines[machine.id] = machine
        self.metrics.count("desktop_starts_total", host=self.name)
        self._spawn("prepare", self._start(machine))

    def _turn_away(self) -> None:
        """Tell all who wait that machines keep failing."""
        last = self.quarantine[-1]
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_exception(
                    MachineError(
                        f"pool {self.name!r} rests for {self._breaker.wait_s:.0f} s: "
                        f"{self.config.max_failures} desktops in a row failed, the last in "
                        f"{last.during}: {last.message}",
                        kind="no-desktops",
                    )
                )

    async def _start(self, machine: M) -> None:
        async with self._slots:
            try:
                await _within(self.config.start_timeout_s, machine.start)
            except Exception as error:  # noqa: BLE001 - whatever it is, the machine is no good
                what = f"desktop {machine.id} did not start"
                self._put_in_quarantine(machine, "start", _named(error, what))
                return
        self._ready.append(machine)

    async def _recycle(self, machine: M) -> None:
        """Make a machine that comes back from a user fit for the next."""
        during = "use"
        async with self._slots:
            try:
                await _within(self.config.check_timeout_s, machine.check)
                during = "reset"
                await _within(self.config.reset_timeout_s, machine.reset)
            except Exception as error:  # noqa: BLE001 - whatever it is, the machine is no good
                what = f"desktop {machine.id} failed after use"
                self._put_in_quarantine(machine, during, _named(error, what))
                return
        self._ready.append(machine)

    async def _hand_over(self, machine: M) -> None:
        """Give a machine to the first in line, if it works."""
        try:
            await _within(self.config.check_timeout_s, machine.check)
        except Exception as error:  # noqa: BLE001 - whatever it is, the machine is no good
            what = f"desktop {machine.id} did not pass its check"
            self._put_in_quarantine(machine, "check", _named(error, what))
            return
        self._breaker.succeeded()
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(machine)
                return
        self._ready.appendleft(machine)

    async def _run_out(self, _: str, lease: PoolLease[M]) -> None:
        lease.lost = MachineError(
            f"lease {lease.id} was not renewed for {self.ttl_s:g} s", kind=LOST_LEASE
        )
        logger.warning("pool %s: %s", self.name, lease.lost)
        self.metrics.count("desktop_leases_expired_total", host=self.name)
        self.take_back(lease)

    def _put_in_quarantine(self, machine: M, during: str, error: MachineError) -> None:
        self._failed(machine.id, during, error)
        self._spawn("stop", self._take_down(machine))

    def _failed(self, machine_id: str, during: str, error: MachineError) -> None:
        logger.warning("pool %s: %s in quarantine: %s", self.name, machine_id, error)
        self.metrics.count(
            "desktop_quarantined_total", host=self.name, during=during, kind=error.kind
        )
        self.quarantine.append(Quarantined(machine_id, during, error.kind, str(error), time.time()))
        if self._breaker.failed():
            logger.error("pool %s rests: its desktops keep failing", self.name)
        if self._breaker.is_open:
            if self._timer is not None:
                self._timer.cancel()
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._breaker.wait_s + 0.01, self._tend)

    async def _take_down(self, machine: M) -> None:
        for attempt in range(1, STOP_ATTEMPTS + 1):
            try:
                await _within(self.config.check_timeout_s, machine.stop)
                break
            except Exception as error:  # noqa: BLE001 - counted below if it does not get better
                logger.warning("desktop %s, stop no. %d: %r", machine.id, attempt, error)
        else:
            logger.error("desktop %s could not be taken down and may still run", machine.id)
            self.metrics.count("desktop_abandoned_total", host=self.name)
        self._machines.pop(machine.id, None)

    def _spawn(self, kind: str, work: Coroutine[Any, Any, None]) -> None:
        # Counted before it begins: the next look at the counts may come first.
        self._doing[kind] += 1
        task = asyncio.get_running_loop().create_task(work, name=f"pool {self.name}: {kind}")
        self._tasks.add(task)
        task.add_done_callback(lambda _: self._finish(task, kind))

    def _finish(self, task: asyncio.Task[None], kind: str) -> None:
        self._doing[kind] -= 1
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("pool %s: %s failed", self.name, kind, exc_info=task.exception())
        self._tend()


async def _within(limit_s: float, call: Callable[[], Awaitable[None]]) -> None:
    async with asyncio.timeout(limit_s):
        await call()


def _named(error: Exception, what: str) -> MachineError:
    if isinstance(error, EpisodeError):
        return MachineError(f"{what}: {error}", kind=error.kind)
    if isinstance(error, TimeoutError):
        return MachineError(f"{what}: no answer in time", kind="desktop-timeout")
    return MachineError(f"{what}: {type(error).__name__}: {error}", kind="crash")
