"""Sessions on servers that do not look after them: no two episodes ever hold the same one.

AgentGym's servers count their sessions from 0, forget to free them, or hand out ones that
are in use. One `SessionPool` per server knows which ids this event loop holds, whoever the
client is; a server with eight slots makes the ninth episode wait.

What a pool cannot know is what other processes do with the same server. With SQLGym's
rotating slots two processes can be given one session and neither can tell; give each
process a server of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

logger = logging.getLogger(__name__)

Create = Callable[[], Awaitable[int]]
Discard = Callable[[int], Awaitable[None]]


@dataclass(eq=False, slots=True)
class Session:
    """A server session that one episode holds."""

    id: int
    is_reused: bool = False
    is_lost: bool = False
    """The server gave its id to somebody else, so it has restarted."""


class SessionPool:
    """The sessions held on one server."""

    def __init__(self, num_slots: int | None) -> None:
        self._num_slots = num_slots
        self._is_slotted = num_slots is not None
        self._held: dict[int, Session] = {}
        self._idle: list[int] = []
        self._num_creating = 0
        self._changed = asyncio.Condition()
        self._leftovers: set[asyncio.Task[None]] = set()

    async def acquire(self, create: Create, discard: Discard) -> Session:
        """Take an idle session or create one; wait while every slot is in use."""
        while True:
            async with self._changed:
                await self._changed.wait_for(self._has_room)
                if self._idle:
                    return self._hold(self._idle.pop(), is_reused=True)
                self._num_creating += 1
            try:
                session_id = await self._create(create, discard)
                if not (self._is_slotted and session_id in self._held):
                    return self._hold(session_id, is_reused=False)
                # The server rotates through used sessions: there are no more than we know of.
                self._num_slots = max(1, len(self._held) + len(self._idle))
            finally:
                self._num_creating -= 1
                await self._notify()

    async def release(self, session: Session, *, is_reusable: bool) -> None:
        """Give a session back; one that can be reset again serves the next episode."""
        if self._held.get(session.id) is session:
            del self._held[session.id]
            if is_reusable and not session.is_lost:
                self._idle.append(session.id)
        await self._notify()

    def forget_idle(self) -> None:
        """Drop idle sessions: the server that had them is no more."""
        self._idle.clear()

    async def settle(self) -> None:
        """Wait for sessions that are still being thrown away."""
        await asyncio.gather(*self._leftovers)

    def _has_room(self) -> bool:
        in_use = len(self._held) + self._num_creating
        return bool(self._idle) or self._num_slots is None or in_use < self._num_slots

    def _hold(self, session_id: int, *, is_reused: bool) -> Session:
        before = self._held.get(session_id)
        if before is not None:
            before.is_lost = True
        if session_id in self._idle:
            self._idle.remove(session_id)
        session = Session(session_id, is_reused)
        self._held[session_id] = session
        return session

    async def _create(self, create: Create, discard: Discard) -> int:
        job = asyncio.ensure_future(create())
        try:
            return await asyncio.shield(job)
        except asyncio.CancelledError:
            # The server may be about to open a session that nobody would ever close.
            task = asyncio.create_task(self._throw_away(job, discard))
            self._leftovers.add(task)
            task.add_done_callback(self._leftovers.discard)
            raise

    async def _throw_away(self, job: asyncio.Future[int], discard: Discard) -> None:
        try:
            session_id = await job
            if self._is_slotted and session_id not in self._held:
                self._idle.append(session_id)
            elif not self._is_slotted:
                await discard(session_id)
        except Exception as error:  # noqa: BLE001 - nobody is left to tell
            logger.warning("a session opened for a cancelled episode was not closed: %s", error)
        await self._notify()

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()


_POOLS: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, SessionPool]] = WeakKeyDictionary()


def pool_for(server: str, num_slots: int | None) -> SessionPool:
    """The pool of a server, the same for every client in the running event loop."""
    pools = _POOLS.setdefault(asyncio.get_running_loop(), {})
    return pools.setdefault(server, SessionPool(num_slots))
