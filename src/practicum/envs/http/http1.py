"""A small HTTP/1.1 client for many short calls to one server.

A step of a text environment takes microseconds, and a general client spends ten times that
on redirects, cookies and compression which no environment server uses: with this one a step
over HTTP costs half of what it costs with aiohttp's (`benchmarks/envs.py`). It also knows
for each connection why it must not be used again. One request at a time per connection;
connections are kept for the next request. WebSockets stay with aiohttp.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

KEEP_ALIVE_S = 3.0
"""Shorter than the 5 s after which uvicorn hangs up, so that no step meets a dead connection."""
MAX_RESPONSE_BYTES = 64 * 2**20
_HEAD_END = b"\r\n\r\n"
_MAX_HEAD_BYTES = 2**16


class ProtocolError(Exception):
    """What came is not HTTP/1.1, or breaks off."""


@dataclass(frozen=True, slots=True)
class Response:
    """A complete answer."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes
    can_go_on: bool
    """The server keeps the connection open."""

    @property
    def content_type(self) -> str:
        """Without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


class Client:
    """Connections to one server."""

    def __init__(self, base_url: str, headers: Mapping[str, str]) -> None:
        parts = urlsplit(base_url)
        self._host = parts.hostname or ""
        self._ssl = ssl.create_default_context() if parts.scheme == "https" else None
        self._port = parts.port or (443 if self._ssl else 80)
        self._path = parts.path
        lines = {"Host": parts.netloc.rpartition("@")[2], **headers}
        self._headers = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        self._idle: list[_Connection] = []

    async def request(self, method: str, path: str, body: bytes | None = None) -> Response:
        """Send a request, once; raises `OSError` or `ProtocolError`."""
        head = f"{method} {self._path}{path} HTTP/1.1\r\n{self._headers}"
        if body is not None:
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        connection = self._take_idle() or await self._connect()
        try:
            response = await connection.ask(f"{head}\r\n".encode("latin-1") + (body or b""))
        except BaseException:
            connection.abort()  # an answer that comes later would be to an old question
            raise
        # uvicorn drops the connection after an unhandled exception without saying so.
        if response.can_go_on and response.status < 500:
            self._idle.append(connection)
        else:
            connection.abort()
        return response

    async def aclose(self) -> None:
        """Close what is idle; idempotent."""
        idle, self._idle = self._idle, []
        loop = asyncio.get_running_loop()
        for connection in idle:
            if connection.loop is loop:
                connection.abort()
        await asyncio.sleep(0)  # transports close in the next turn of the loop

    def _take_idle(self) -> _Connection | None:
        loop = asyncio.get_running_loop()
        while self._idle:
            connection = self._idle.pop()
            if connection.loop is loop:
                if connection.is_fresh():
                    return connection
                connection.abort()
        return None

    async def _connect(self) -> _Connection:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(
            lambda: _Connection(loop), self._host, self._port, ssl=self._ssl
        )
        return connection


class _Connection(asyncio.Protocol):
    """One connection: a request out, an answer back."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Response] | None = None
        self._received = bytearray()
        self._num_expected = 0
        self._is_lost = False
        self._last_used_s = 0.0

    def is_fresh(self) -> bool:
        """It is open, nothing came unasked, and the server had no time to tire of it."""
        is_recent = self.loop.time() - self._last_used_s < KEEP_ALIVE_S
        return is_recent and not self._is_lost and not self._received

    async def ask(self, request: bytes) -> Response:
        """Send a request and wait for the answer."""
        if self._is_lost or self._transport is None:
            raise ConnectionResetError("the connection is closed")
        self._answer = self.loop.create_future()
        self._transport.write(request)
        try:
            return await self._answer
        finally:
            self._answer = None
            self._last_used_s = self.loop.time()

    def abort(self) -> None:
        """Close at once."""
        self._is_lost = True
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        self._received += data
        self._try_to_answer(is_complete=False)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop."""
        self._is_lost = True
        if self._answer is None or self._answer.done():
            return
        if exc is None and self._received:
            self._try_to_answer(is_complete=True)
        if not self._answer.done():
            self._answer.set_exception(
                ProtocolError(f"the answer breaks off after {len(self._received)} bytes")
                if self._received
                else exc or ConnectionResetError("the server hung up")
            )

    def _try_to_answer(self, *, is_complete: bool) -> None:
        if self._answer is None or self._answer.done():
            return  # unasked; `is_fresh` sees that something came
        if len(self._received) < self._num_expected and not is_complete:
            return  # a large answer comes in many pieces; reading each anew would be slow
        try:
            parsed = parse(bytes(self._received), is_complete=is_complete)
        except (ProtocolError, ValueError) as error:
            self._answer.set_exception(ProtocolError(str(error)))
            return
        if parsed is None:
            self._num_expected = num_expected(self._received)
            return
        response, num_bytes = parsed
        del self._received[:num_bytes]
        self._num_expected = 0
        self._answer.set_result(response)


def num_expected(data: bytearray) -> int:
    """How long an answer will be, from what there is of it; 0 if that cannot be told."""
    end = data.find(_HEAD_END)
    if end < 0:
        return 0
    _, _, headers = _parse_head(data[:end].decode("latin-1"))
    length = headers.get("content-length", "")
    return end + len(_HEAD_END) + int(length) if length.isdigit() else 0


def parse(data: bytes, *, is_complete: bool) -> tuple[Response, int] | None:
    """Read an answer and its length in bytes; None if there is more to come.

    `is_complete`: the server has closed the connection, so no more will come.
    """
    end = data.find(_HEAD_END)
    if end < 0:
        if len(data) > _MAX_HEAD_BYTES or not b"HTTP/1.".startswith(data[:7]):
            raise ProtocolError(f"not HTTP: {data[:60]!r}")
        return None
    version, status, headers = _parse_head(data[:end].decode("latin-1"))
    start = end + len(_HEAD_END)
    if 100 <= status < 200:
        rest = parse(data[start:], is_complete=is_complete)
        return (rest[0], rest[1] + start) if rest else None
    keeps = "close" if version == "HTTP/1.0" else "keep-alive"
    can_go_on = headers.get("connection", keeps).lower() != "close"
    if status in (204, 304):
        return Response(status, headers, b"", can_go_on), start
    if "chunked" in headers.get("transfer-encoding", "").lower():
        found = _parse_chunks(data, start)
        return (Response(status, headers, found[0], can_go_on), found[1]) if found else None
    if "content-length" not in headers:
        return (Response(status, headers, data[start:], False), len(data)) if is_complete else None
    length = int(headers["content-length"])
    if not 0 <= length <= MAX_RESPONSE_BYTES:
        raise ProtocolError(f"an answer of {length} bytes")
    if len(data) < start + length:
        return None
    return Response(status, headers, data[start : start + length], can_go_on), start + length


def _parse_head(head: str) -> tuple[str, int, dict[str, str]]:
    first, *lines = head.split("\r\n")
    version, _, rest = first.partition(" ")
    if not version.startswith("HTTP/1.") or not rest[:3].isdigit():
        raise ProtocolError(f"not HTTP: {first[:60]!r}")
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    return version, int(rest[:3]), headers


def _parse_chunks(data: bytes, start: int) -> tuple[bytes, int] | None:
    body = bytearray()
    while True:
        line_end = data.find(b"\r\n", start)
        if line_end < 0:
            return None
        size = int(data[start:line_end].partition(b";")[0], 16)
        start = line_end + 2
        if size == 0:
            trailer_end = data.find(b"\r\n", start)
            while trailer_end > start:  # trailers say nothing we need
                start = trailer_end + 2
                trailer_end = data.find(b"\r\n", start)
            return (bytes(body), start + 2) if trailer_end == start else None
        if size < 0 or len(body) + size > MAX_RESPONSE_BYTES:
            raise ProtocolError(f"an answer of more than {MAX_RESPONSE_BYTES} bytes")
        if len(data) < start + size + 2:
            return None
        body += data[start : start + size]
        start += size + 2
