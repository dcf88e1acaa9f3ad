"""Requests that carry an id are done at most once.

The first request with an id is carried out, and its answer kept; the same id again gets that
answer, also while the first is still running. What was done stays known for long after its
answer was dropped: then the same id is refused, never done again.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import web

from practicum.desktops.server.desk import complain

MAX_IDS = 100_000
MAX_KEPT_BYTES = 32 * 2**20
MAX_ID_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Answer:
    """A response that can be given again."""

    status: int
    body: bytes
    content_type: str | None

    @classmethod
    def of(cls, response: web.Response) -> Answer:
        """Keep a response."""
        body = response.body
        assert body is None or isinstance(body, bytes), "routes answer with bytes"
        return cls(response.status, body or b"", response.headers.get("Content-Type"))

    def response(self) -> web.Response:
        """Make it anew."""
        headers = {"Content-Type": self.content_type} if self.content_type else {}
        return web.Response(status=self.status, body=self.body, headers=headers)


@dataclass(slots=True)
class _Entry:
    fingerprint: bytes
    answer: asyncio.Future[Answer] | None
    """None once it was dropped."""
    size_bytes: int = 0


class Once:
    """The requests that were made, by id."""

    def __init__(self, max_ids: int = MAX_IDS, max_bytes: int = MAX_KEPT_BYTES) -> None:
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._max_ids = max_ids
        self._max_bytes = max_bytes
        self._kept_bytes = 0

    async def respond(
        self, request_id: str, fingerprint: bytes, act: Callable[[], Awaitable[web.Response]]
    ) -> web.Response:
        """Carry out a request, or answer as before."""
        if not request_id.isprintable() or not 0 < len(request_id) <= MAX_ID_CHARACTERS:
            return complain(f"a request id has 1 to {MAX_ID_CHARACTERS} characters", 400)
        entry = self._entries.get(request_id)
        if entry is not None:
            return await self._again(request_id, entry, fingerprint)
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        entry = self._entries[request_id] = _Entry(fingerprint, future)
        try:
            response = await act()
        except BaseException as error:
            # Only a server that goes down gets here; whoever waits for the answer goes too.
            future.set_exception(ConnectionAbortedError(str(error)))
            future.exception()
            entry.answer = None
            raise
        kept = Answer.of(response)
        future.set_result(kept)
        entry.size_bytes = len(kept.body)
        self._kept_bytes += entry.size_bytes
        self._make_room()
        return response

    async def _again(self, request_id: str, entry: _Entry, fingerprint: bytes) -> web.Response:
        if entry.fingerprint != fingerprint:
            return complain(f"request {request_id} was another one", 409, kind="conflict")
        if entry.answer is None:
            return complain(
                f"request {request_id} was carried out, and its answer is no longer known",
                409,
                kind="conflict",
            )
        return (await asyncio.shield(entry.answer)).response()

    def _make_room(self) -> None:
        for entry in self._entries.values():
            if self._kept_bytes <= self._max_bytes:
                break
            if entry.answer is not None and entry.answer.done():
                entry.answer = None
                self._kept_bytes -= entry.size_bytes
        while len(self._entries) > self._max_ids:
            _, entry = self._entries.popitem(last=False)
            if entry.answer is not None:
                self._kept_bytes -= entry.size_bytes
