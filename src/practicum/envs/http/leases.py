"""The episodes a server holds: each under a lease that runs out unless it is used.

A lease's id is drawn at random, so it is never given out twice, also not after a restart.
It carries the number of the worker process that has it: `id % num_workers`.

An episode is opened, stepped and closed by whichever request comes along, so an
environment's context must not be tied to the asyncio task that entered it.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

from practicum.core.env import Env, Environment, StepResult, state_hash
from practicum.core.errors import EnvError, EpisodeError
from practicum.core.leases import LeaseBook, now_s
from practicum.core.message import Action, Observation
from practicum.core.metrics import Metrics
from practicum.core.task import Task

logger = logging.getLogger(__name__)

STEP_TIMEOUT_S = 120.0
"""Nobody waits longer; a step that hangs must not hold its lease for ever."""
_ID_BITS = 48


class BusyError(EnvError):
    """The server holds as many episodes as it may."""

    def __init__(self, capacity: int, retry_after_s: float) -> None:
        super().__init__(f"all {capacity} places are taken", kind="busy")
        self.retry_after_s = retry_after_s


@dataclass(eq=False)
class Lease:
    """A place on the server, and the episode played there, if one was started."""

    id: int
    environment: Environment
    expires_s: float = 0.0
    task: Task | None = None
    observation: Observation | None = None
    """The last one shown."""
    state: str | None = None
    """The hash of what the world is like since; None once the episode is over."""
    result: StepResult | None = None
    """The answer to step number `num_steps`."""
    num_steps: int = 0
    earned: float = 0.0
    is_over: bool = False
    is_closed: bool = False
    num_users: int = 0
    """Calls under way; a lease in use does not run out."""
    # Two calls for one lease take turns: an episode does one thing at a time.
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    context: AbstractAsyncContextManager[Env] | None = None
    env: Env | None = None


class LeaseTable:
    """All leases of one process."""

    def __init__(
        self,
        capacity: int,
        ttl_s: float,
        metrics: Metrics,
        worker: int = 0,
        num_workers: int = 1,
    ) -> None:
        self.capacity = capacity
        self.ttl_s = ttl_s
        self.worker = worker
        self.num_workers = num_workers
        self._metrics = metrics
        self._leases: LeaseBook[int, Lease] = LeaseBook(ttl_s)

    def __len__(self) -> int:
        return len(self._leases)

    def ids(self) -> list[int]:
        """The ids of all leases."""
        return self._leases.ids()

    def grant(self, environment: Environment) -> Lease:
        """Give out a place, or raise `BusyError`."""
        if len(self._leases) >= self.capacity:
            self._metrics.count("busy_total")
            raise BusyError(self.capacity, self._first_free_s())
        lease_id = secrets.randbits(_ID_BITS) * self.num_workers + self.worker
        lease = Lease(lease_id, environment)
        self._leases.add(lease_id, lease)
        self._metrics.count("opened_total", env=environment.id)
        return lease

    def find(self, lease_id: int) -> Lease:
        """Find a lease and renew it, or raise `EnvError`."""
        lease = self._leases.get(lease_id)
        if lease is None:
            raise self.unknown(lease_id)
        self._leases.renew(lease_id)
        return lease

    def unknown(self, lease_id: int) -> EnvError:
        """Build the error for a lease that there is not."""
        return EnvError(
            f"unknown session {lease_id}: it was closed, it was left unused for more than "
            f"{self.ttl_s:g} s, or the server restarted; open a new one",
            kind="lost-session",
        )

    async def start(self, lease: Lease, task: Task) -> Observation:
        """Start an episode in a place; one that was played there before is closed."""
        async with _Use(self, lease):
            await self._leave(lease)
            context = lease.environment.open(task)
            try:
                async with asyncio.timeout(STEP_TIMEOUT_S):
                    lease.env = await context.__aenter__()
                    lease.context = context
                    first = await lease.env.start()
                    lease.state = state_hash(lease.env, first)
            except Exception as error:
                await self._leave(lease)
                raise self._named(error, "starting") from error
            lease.task, lease.observation, lease.result = task, first, None
            lease.num_steps, lease.earned, lease.is_over = 0, 0.0, False
            return first

    async def step(self, lease: Lease, action: Action, number: int | None = None) -> StepResult:
        """Carry out a step, once per number; a repeated number gets the recorded answer."""
        async with _Use(self, lease):
            if number is not None and number == lease.num_steps and lease.result is not None:
                self._metrics.count("repeated_total", env=lease.environment.id)
                return lease.result
            if number is not None and number != lease.num_steps + 1:
                raise EnvError(
                    f"step {number} of session {lease.id} after step {lease.num_steps}",
                    kind="bad-sequence",
                )
            if lease.env is None or lease.is_over:
                state = "has finished" if lease.is_over else "was not reset yet"
                raise EnvError(f"The episode of session {lease.id} {state}.", kind="not-playing")
            started_s = now_s()
            try:
                async with asyncio.timeout(STEP_TIMEOUT_S):
                    result = await lease.env.step(action)
                    is_over = result.is_done
                    lease.state = None if is_over else state_hash(lease.env, result.observation)
            except Exception as error:
                # What the world did is not known, so nothing more can be played in it.
                lease.is_over = True
                raise self._named(error, f"step {lease.num_steps + 1}") from error
            self._metrics.count("steps_total", env=lease.environment.id)
            self._metrics.count("step_seconds_total", now_s() - started_s, env=lease.environment.id)
            lease.num_steps += 1
            lease.earned += result.reward
            lease.result, lease.observation = result, result.observation
            lease.is_over = is_over
            return result

    async def close(self, lease_id: int) -> bool:
        """Free a place; False if there was none."""
        lease = self._leases.pop(lease_id)
        if lease is None:
            return False
        lease.is_closed = True
        self._metrics.count("closed_total", env=lease.environment.id)
        async with lease.lock:
            await self._leave(lease)
        return True

    async def sweep_for_ever(self) -> None:
        """Free places the moment their lease runs out."""

        async def end(lease_id: int, lease: Lease) -> None:
            logger.info("session %s of %s ran out", lease_id, lease.environment.id)
            self._metrics.count("expired_total", env=lease.environment.id)
            await self.close(lease_id)

        await self._leases.sweep_for_ever(end)

    async def aclose(self) -> None:
        """Free every place."""
        for lease_id in self.ids():
            await self.close(lease_id)

    def _first_free_s(self) -> float:
        # Most places come free by being closed, long before a lease runs out.
        return round(min(max(self._leases.until_first_s(), 0.1), 1.0), 1)

    def renew(self, lease: Lease) -> None:
        """Let a lease last its full time from now."""
        self._leases.renew(lease.id)

    def _named(self, error: Exception, what: str) -> EpisodeError:
        if isinstance(error, EpisodeError):
            named = error
        elif isinstance(error, TimeoutError):
            named = EnvError(f"{what} took longer than {STEP_TIMEOUT_S:g} s", kind="timeout")
        else:
            named = EnvError(f"{what} failed: {type(error).__name__}: {error}", kind="crash")
        self._metrics.count("errors_total", kind=f"{named.boundary}/{named.kind}")
        return named

    async def _leave(self, lease: Lease) -> None:
        context, lease.context, lease.env = lease.context, None, None
        if context is None:
            return
        try:
            async with asyncio.timeout(STEP_TIMEOUT_S):
                await context.__aexit__(None, None, None)
        except Exception as error:  # noqa: BLE001 - a stranger's cleanup; the place is free anyway
            logger.warning("session %s did not close cleanly: %s", lease.id, error)


class _Use:
    """Holds a lease for the length of a call."""

    def __init__(self, table: LeaseTable, lease: Lease) -> None:
        self._table = table
        self._lease = lease

    async def __aenter__(self) -> None:
        self._lease.num_users += 1
        try:
            await self._lease.lock.acquire()
        except BaseException:
            self._lease.num_users -= 1
            raise
        if self._lease.is_closed:
            await self.__aexit__()
            raise self._table.unknown(self._lease.id)

    async def __aexit__(self, *exception: Any) -> None:
        self._lease.lock.release()
        self._lease.num_users -= 1
        self._table.renew(self._lease)
