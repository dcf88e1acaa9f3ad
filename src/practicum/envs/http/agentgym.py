"""Plays episodes on a server that speaks AgentGym's HTTP: theirs, or ours in their dialect.

Opening, resetting, observing and closing are repeated when they fail; a step is sent once,
whatever happens to the connection. On our own server tasks go by id and results come with
what AgentGym's replies leave out; both are found under the extra key of `wire`.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from weakref import WeakKeyDictionary

from practicum.core.env import Env, StepResult
from practicum.core.errors import EnvError, EpisodeError
from practicum.core.message import Action, Observation
from practicum.core.task import Task
from practicum.envs.http import wire
from practicum.envs.http.calls import Caller, CallError
from practicum.envs.http.dialects import (
    Dialect,
    read_created,
    read_first,
    read_step,
    read_text,
)
from practicum.envs.http.identity import INDEX, TaskIndex
from practicum.envs.http.sessions import Session, SessionPool, pool_for

logger = logging.getLogger(__name__)

_INDICES: WeakKeyDictionary[SessionPool, TaskIndex] = WeakKeyDictionary()


class AgentGymTransport:
    """Opens episodes on one server."""

    def __init__(self, caller: Caller, dialect: Dialect, *, is_ours: bool, path: str = "") -> None:
        self.caller = caller
        self.dialect = dialect
        self.is_ours = is_ours
        self.path = path or dialect.path
        server = caller.base_url + self.path
        # Ours frees what is closed and never hands out a session twice.
        self.pool = pool_for(server, None if is_ours else dialect.num_slots)
        self.tasks = _INDICES.setdefault(self.pool, TaskIndex(dialect, server))
        self._closes = is_ours or dialect.can_close

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncIterator[Env]:
        """Open an episode; its session is closed or given back whatever happens."""
        episode = _Episode(self, task, await self.acquire())
        try:
            yield episode
        finally:
            await self.release(episode.session, is_sound=episode.is_sound)

    async def acquire(self) -> Session:
        """Take a session on the server."""
        return await self.pool.acquire(self._create, self._close)

    async def release(self, session: Session, *, is_sound: bool) -> None:
        """Close a session, or keep it for the next episode where it cannot be closed."""
        # A slot that broke comes back all the same: thrown away, it would be gone for good.
        is_slotted = self.dialect.num_slots is not None
        is_reusable = not self._closes and (is_sound or is_slotted)
        try:
            if self._closes and not session.is_lost:
                await self._close(session.id)
        except EpisodeError as error:
            # The episode is over; a session left open cannot change what was played.
            logger.warning("session %s was not closed: %s", session.id, error)
        finally:
            await self.pool.release(session, is_reusable=is_reusable)

    async def aclose(self) -> None:
        """Wait for sessions that are still being thrown away."""
        await self.pool.settle()

    async def reset(self, session: Session, body: Mapping[str, Any], route: str = "/reset") -> Any:
        """Start a task in a session; safe to repeat, since nothing was played yet."""
        return await self.call(session, route, body, is_repeatable=True)

    async def call(
        self, session: Session, route: str, body: Mapping[str, Any], *, is_repeatable: bool = False
    ) -> Any:
        """Call a route for a session."""
        if session.is_lost:
            raise EnvError(
                f"session {session.id} on {self.caller.base_url} now belongs to another "
                "episode: the server has restarted; play the episode again",
                kind="lost-session",
            )
        data = {self.dialect.session_key: session.id, **body}
        try:
            return await self.caller.post(self.path + route, data, is_repeatable=is_repeatable)
        except CallError as error:
            if not self.is_ours and error.status >= 500 and await self._is_gone(session):
                raise EnvError(
                    f"session {session.id} is unknown to {self.caller.base_url}: it restarted",
                    kind="lost-session",
                ) from error
            raise

    async def _create(self) -> int:
        # On ours the reset follows at once, so a new session need not start a task of its own.
        body = {wire.EXTRA: True} if self.is_ours else self.dialect.create_body
        reply = await self.caller.post(self.path + "/create", body, is_repeatable=True)
        return read_created(self.dialect, reply)

    async def _close(self, session_id: int) -> None:
        await self.caller.post(
            self.path + "/close", {self.dialect.session_key: session_id}, is_repeatable=True
        )

    async def _is_gone(self, session: Session) -> bool:
        """Find out why a server that says only `500` failed, where it lists its sessions."""
        if not self.dialect.lists_sessions:
            return False
        try:
            listed = await self.caller.get(self.path + "/list_envs")
        except EpisodeError:
            return False
        return isinstance(listed, list) and session.id not in listed


class _Episode:
    """One episode of one task in one session."""

    def __init__(self, transport: AgentGymTransport, task: Task, session: Session) -> None:
        self._transport = transport
        self._task = task
        self._earned = 0.0
        self.told_state: str | None = None
        self.session = session
        self.is_sound = False
        """The session is known to do nothing more on its own."""

    async def start(self) -> Observation:
        """Reset the session to the task and check that it is the task."""
        try:
            first = await self._start()
        except EpisodeError as error:
            stale = self.session.is_reused and error.kind in ("lost-session", "server-error")
            if not stale:
                raise
            # The session was opened on a server that has since restarted, as were its like.
            self._transport.pool.forget_idle()
            await self._transport.pool.release(self.session, is_reusable=False)
            self.session = await self._transport.acquire()
            first = await self._start()
        self.is_sound = True
        return first

    async def step(self, action: Action) -> StepResult:
        """Send the action, once."""
        self.is_sound = False
        transport = self._transport
        reply = await transport.call(self.session, "/step", {"action": action.text})
        extra = reply.get(wire.EXTRA) if isinstance(reply, Mapping) else None
        self.told_state = wire.read_state(extra)
        if isinstance(extra, Mapping):
            text = extra.get("text")
            if not isinstance(text, str):
                text = read_text(transport.dialect, reply)
            images = wire.read_images(extra["images"]) if "images" in extra else ()
            result = wire.read_result(extra, Observation(text, images))
        else:
            result = read_step(transport.dialect, reply, action.text, self._earned)
        self._earned += result.reward
        self.is_sound = True
        return result

    async def _start(self) -> Observation:
        has_id = self._transport.is_ours and INDEX not in self._task.data
        return await (self._start_by_id() if has_id else self._start_by_index())

    async def _start_by_id(self) -> Observation:
        transport = self._transport
        try:
            reply = await transport.reset(self.session, {"task": self._task.id}, "/reset_task")
        except EnvError as error:
            if error.kind != "unknown-task":
                raise
            content = {"task": wire.write_task(self._task)}
            reply = await transport.reset(self.session, content, "/reset_task")
        served = reply.get("task") if isinstance(reply, Mapping) else None
        if served != self._task.id:
            raise EnvError(
                f"asked {transport.caller.base_url} for {self._task.id} and was served {served}",
                kind="wrong-task",
            )
        self.told_state = wire.read_state(reply)
        return wire.read_observation(reply.get("observation"))

    async def _start_by_index(self) -> Observation:
        transport, dialect = self._transport, self._transport.dialect

        async def reset(index: int) -> Any:
            body = {dialect.index_key: index, **dialect.reset_extra}
            return await transport.reset(self.session, body)

        async def start() -> tuple[Observation, bool, EnvError | None]:
            index, is_remembered = await transport.tasks.find(self._task, reset)
            reply = await reset(index)
            text = read_first(dialect, reply)
            try:
                transport.tasks.check(self._task, index, reply, text)
            except EnvError as error:
                return Observation(text), is_remembered, error
            return Observation(text), is_remembered, None

        first, is_remembered, mismatch = await start()
        if mismatch is not None and is_remembered:
            # What was learnt of a server does not outlive it: look once more.
            transport.tasks.forget()
            first, _, mismatch = await start()
        if mismatch is not None:
            raise mismatch
        return first
