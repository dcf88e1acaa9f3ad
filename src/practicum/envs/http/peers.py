"""Worker processes of one server, as they see each other.

The kernel spreads connections over the workers, so a request can reach any of them. A
session belongs to the worker that its id names; a worker that gets a request for another
one's session passes it on over that one's Unix socket. Passing on happens once: the id
decides, not a table.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from practicum.core.errors import EnvError
from practicum.core.metrics import Metrics
from practicum.envs.http import wire
from practicum.envs.http.leases import STEP_TIMEOUT_S

PEER_MESSAGE = "/peer/message"
PEER_SAMPLES = "/peer/samples"
PASSED_ON = "X-Practicum-Passed-On"
"""Marks what comes from another worker, so that nothing goes round in circles."""


class Peers:
    """The other workers; there may be none."""

    def __init__(
        self,
        folder: Path | None,
        worker: int,
        num_workers: int,
        token: str | None,
        metrics: Metrics,
    ) -> None:
        self._folder = folder
        self._worker = worker
        self.others = [k for k in range(num_workers) if k != worker]
        self._headers = {PASSED_ON: str(worker)}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._metrics = metrics
        self._sessions: dict[int, aiohttp.ClientSession] = {}

    def socket_of(self, worker: int) -> Path:
        """Where a worker listens for the others."""
        assert self._folder is not None
        return self._folder / f"worker-{worker}.sock"

    async def pass_on(self, owner: int, request: web.Request) -> web.Response:
        """Have the owner answer a request."""
        content = await request.read()
        try:
            status, body = await self._ask(owner, request.method, request.path_qs, content)
        except EnvError as error:
            return web.json_response(wire.write_error(error), status=404)
        return web.Response(body=body, status=status, content_type="application/json")

    async def pass_on_to_any(self, request: web.Request) -> web.Response | None:
        """Have a worker with a free place answer; None if there is none."""
        if PASSED_ON in request.headers:
            return None
        for other in self.others:
            response = await self.pass_on(other, request)
            if response.status == 200:
                return response
        return None

    async def pass_on_message(self, owner: int, text: str) -> str:
        """Have the owner answer a message."""
        _, body = await self._ask(owner, "POST", PEER_MESSAGE, text.encode())
        return body.decode()

    async def samples(self) -> list[Any]:
        """What the other workers count; one that does not answer is left out."""
        found = []
        for owner in self.others:
            try:
                async with asyncio.timeout(2):
                    found += await self._get_samples(owner)
            except (EnvError, TimeoutError):
                self._metrics.count("errors_total", kind="peer/silent")
        return found

    async def aclose(self) -> None:
        """Close the connections."""
        for session in self._sessions.values():
            await session.close()
        self._sessions.clear()

    async def _get_samples(self, owner: int) -> list[Any]:
        _, body = await self._ask(owner, "GET", PEER_SAMPLES, b"")
        samples: list[Any] = json.loads(body)
        return samples

    async def _ask(self, owner: int, method: str, path: str, content: bytes) -> tuple[int, bytes]:
        self._metrics.count("forwarded_total")
        session = self._sessions.get(owner)
        if session is None:
            session = aiohttp.ClientSession(
                connector=aiohttp.UnixConnector(str(self.socket_of(owner)), limit=0),
                headers=self._headers,
                timeout=aiohttp.ClientTimeout(total=STEP_TIMEOUT_S + 10),
            )
            self._sessions[owner] = session
        try:
            async with session.request(method, f"http://worker{path}", data=content) as response:
                return response.status, await response.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise EnvError(
                f"worker {owner} does not answer: {type(error).__name__}: {error}",
                kind="lost-session",
            ) from error
