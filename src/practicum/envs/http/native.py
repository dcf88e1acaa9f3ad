"""Plays episodes over our WebSocket protocol: a lease per episode, numbered steps.

A connection serves one episode at a time and then the next. If it breaks, the episode goes
on over another one: the server answers a step it has already carried out from its record,
so sending it again never carries it out again. While the policy thinks, a heartbeat keeps
the lease. The messages are described in `native_server`.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from practicum.core.env import Env, StepResult
from practicum.core.errors import EnvError, EpisodeError
from practicum.core.message import Action, Observation
from practicum.core.task import Task
from practicum.envs.http import wire
from practicum.envs.http.calls import Caller, CallError, name_failure
from practicum.envs.http.identity import INDEX

logger = logging.getLogger(__name__)

WS_PATH = "/ws"
MAX_MESSAGE_BYTES = 64 * 2**20
"""An observation with pictures; the server sends no more than one in a message."""


class NativeTransport:
    """Opens episodes on one server and keeps connections for the next ones."""

    def __init__(self, caller: Caller, env_id: str) -> None:
        self.caller = caller
        self._env_id = env_id
        self._idle: list[_Connection] = []
        self._session: aiohttp.ClientSession | None = None

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncIterator[Env]:
        """Open an episode; its lease is given back whatever happens."""
        episode = _Episode(self, task)
        try:
            await episode.open(self._env_id)
            yield episode
        finally:
            await episode.close()

    async def connect(self) -> _Connection:
        """Take an idle connection or make one."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable:
                return connection
            await connection.aclose()
        if self._session is None:
            # Whatever limits concurrency does so above; a limit here would queue silently.
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0), headers=self.caller.headers
            )
        return await _Connection.make(self.caller, self._session)

    async def keep(self, connection: _Connection) -> None:
        """Take a connection back."""
        if connection.is_usable:
            self._idle.append(connection)
        else:
            await connection.aclose()

    async def aclose(self) -> None:
        """Close the connections; idempotent."""
        idle, self._idle = self._idle, []
        for connection in idle:
            await connection.aclose()
        if self._session is not None:
            await self._session.close()
            self._session = None


class _Connection:
    """One WebSocket: a message out, a message back."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, what: str) -> None:
        self._socket = socket
        self._what = what
        self._loop = asyncio.get_running_loop()
        self._is_waiting = False

    @classmethod
    async def make(cls, caller: Caller, session: aiohttp.ClientSession) -> _Connection:
        url = caller.base_url + WS_PATH
        try:
            async with asyncio.timeout(caller.timeout_s):
                socket = await session.ws_connect(url, max_msg_size=MAX_MESSAGE_BYTES)
        except aiohttp.WSServerHandshakeError as error:
            kind = {401: "unauthorized", 403: "unauthorized", 503: "busy", 429: "busy"}
            raise CallError(
                f"{url}: HTTP {error.status} instead of a WebSocket",
                kind=kind.get(error.status, "server-error" if error.status >= 500 else "bad-reply"),
                status=error.status,
            ) from error
        except Exception as error:
            raise name_failure(url, error, caller.timeout_s) from error
        return cls(socket, url)

    @property
    def is_usable(self) -> bool:
        """Open, in step, and of the running event loop."""
        is_here = self._loop is asyncio.get_running_loop()
        return is_here and not self._socket.closed and not self._is_waiting

    async def exchange(self, message: str, timeout_s: float) -> Mapping[str, Any]:
        """Send a message and return the answer; after a failure it is of no more use."""
        # Left standing if anything below fails: the next answer would be to an old question.
        self._is_waiting = True
        try:
            async with asyncio.timeout(timeout_s):
                await self._socket.send_str(message)
                answer = await self._socket.receive()
        except Exception as error:
            raise name_failure(self._what, error, timeout_s) from error
        if answer.type is not aiohttp.WSMsgType.TEXT:
            raise CallError(f"{self._what}: the connection broke off", kind="connection")
        try:
            value = json.loads(answer.data)
        except ValueError as error:
            raise wire.bad_reply("JSON", answer.data) from error
        if not isinstance(value, dict) or not isinstance(value.get("type"), str):
            raise wire.bad_reply("a message", value)
        self._is_waiting = False
        return value

    async def aclose(self) -> None:
        if self._loop is asyncio.get_running_loop():
            await self._socket.close()


class _Episode:
    """One episode of one task under one lease."""

    def __init__(self, transport: NativeTransport, task: Task) -> None:
        self._transport = transport
        self._task = task
        self._connection: _Connection | None = None
        self._lease: int | None = None
        self._first: Observation | None = None
        self.told_state: str | None = None
        self._seq = 0
        self._last_sent_s = 0.0
        self._heartbeat: asyncio.Task[None] | None = None
        # Steps and heartbeats share the connection; an answer belongs to one question.
        self._turn = asyncio.Lock()

    async def open(self, env_id: str) -> None:
        if INDEX in self._task.data:
            raise EnvError(
                f"{self._task.id} is an index on an AgentGym server; this is a practicum server",
                kind="wrong-task",
            )
        message: dict[str, Any] = {"type": "open", "env": env_id, "task": self._task.id}
        try:
            reply = await self._ask(message, "opened")
        except EnvError as error:
            if error.kind != "unknown-task":
                raise
            message["task"] = wire.write_task(self._task)
            reply = await self._ask(message, "opened")
        lease, ttl_s = reply.get("lease"), reply.get("ttl_s")
        if not isinstance(lease, int) or not isinstance(ttl_s, int | float) or ttl_s <= 0:
            raise wire.bad_reply("a lease", reply)
        self._lease = lease
        if reply.get("task") != self._task.id:
            raise EnvError(
                f"asked {self._transport.caller.base_url} for {self._task.id} and was served "
                f"{reply.get('task')}",
                kind="wrong-task",
            )
        self._first = wire.read_observation(reply.get("observation"))
        self.told_state = wire.read_state(reply)
        self._heartbeat = asyncio.create_task(self._renew_every(ttl_s / 3))

    async def start(self) -> Observation:
        """Show the first observation, which came with the lease."""
        assert self._first is not None
        return self._first

    async def step(self, action: Action) -> StepResult:
        """Send the action under the next number."""
        self._seq += 1
        message = {
            "type": "step",
            "lease": self._lease,
            "seq": self._seq,
            "action": action.text,
        }
        reply = await self._ask(message, "result")
        self.told_state = wire.read_state(reply)
        return wire.read_result(reply)

    async def close(self) -> None:
        """Give the lease back, and the connection to the next episode."""
        if self._heartbeat is not None:
            self._heartbeat.cancel()
            await asyncio.gather(self._heartbeat, return_exceptions=True)
        try:
            if self._lease is not None:
                await self._ask({"type": "close", "lease": self._lease}, "closed")
        except EpisodeError as error:
            # The server frees it when the lease runs out.
            logger.warning("lease %s was not closed: %s", self._lease, error)
        finally:
            connection, self._connection = self._connection, None
            if connection is not None:
                await self._transport.keep(connection)

    async def _ask(self, message: Mapping[str, Any], answer: str) -> Mapping[str, Any]:
        """Ask until there is an answer; every message is safe to send again."""
        text = wire.write(message)
        caller = self._transport.caller
        async with self._turn:
            reply = await caller.repeat(lambda: self._exchange(text))
        if reply["type"] != answer:
            raise wire.bad_reply(f"{answer!r}", reply)
        return reply

    async def _exchange(self, text: str) -> Mapping[str, Any]:
        if self._connection is None:
            self._connection = await self._transport.connect()
        connection = self._connection
        try:
            reply = await connection.exchange(text, self._transport.caller.timeout_s)
        finally:
            if not connection.is_usable:
                self._connection = None
                await connection.aclose()
        self._last_sent_s = asyncio.get_running_loop().time()
        if reply["type"] == "error":
            raise wire.read_error(reply)
        if reply["type"] == "busy":
            wait_s = reply.get("retry_after_s")
            raise CallError(
                f"{self._transport.caller.base_url} is full: {reply.get('error')}",
                kind="busy",
                asked_s=wait_s if isinstance(wait_s, int | float) else None,
            )
        return reply

    async def _renew_every(self, interval_s: float) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(max(0.0, self._last_sent_s + interval_s - loop.time()))
            if loop.time() - self._last_sent_s < interval_s:
                continue
            try:
                await self._ask({"type": "renew", "lease": self._lease}, "renewed")
            except EpisodeError as error:
                # The next step meets the same trouble and reports it.
                logger.warning("lease %s was not renewed: %s", self._lease, error)
                return
