"""Passing requests and WebSockets on to a desktop's port, and the answers back.

Bodies are streamed, and bounded on the way in. `Authorization` is the gateway's and goes no
further; what a desktop's port wants to see (VLC has a password) travels as
`X-Desktop-Authorization`. Addresses that the browser's debugging port gives out are rewritten,
so that who follows them comes back through the same door.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from urllib.parse import unquote

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from practicum.desktops.gateway.doors import CHROMIUM, Door, refusal

DESKTOP_AUTHORIZATION = "X-Desktop-Authorization"
MAX_DEBUGGER_PAGE_BYTES = 8 * 2**20
PING_S = 20.0
"""A WebSocket whose other end is silent for so long is dropped."""
_CHUNK_BYTES = 2**16

_HOP_BY_HOP = frozenset(
    "connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer "
    "transfer-encoding upgrade".split()
)
# `Origin` is dropped as well: browsers refuse debuggers that seem to come from a web page.
_NOT_PASSED_ON = _HOP_BY_HOP | {"host", "origin", "authorization", "expect"}


@dataclass(frozen=True, slots=True)
class Passage:
    """One way through: from a public address to a door."""

    port: str
    door: Door
    session: aiohttp.ClientSession
    public_url: str
    """Under which the caller sees the port, no slash at the end."""
    max_body_bytes: int
    on_use: Callable[[], None]
    """Called for each message of the caller."""
    on_status: Callable[[int], Awaitable[None]]
    """Called with the status of each answer before it is passed back; may raise."""
    is_local: bool = False
    """The caller knows of no gateway: its `Authorization` is meant for the desktop."""


async def relay(request: web.Request, tail: str, passage: Passage) -> web.StreamResponse:
    """Pass a request on; `tail` is its path at the desktop, still encoded.

    Raises `aiohttp.ClientError` or `OSError` if the desktop's port does not answer.
    """
    if not is_plain(tail):
        return refusal(400, "bad-request", "the path must not climb (.. or an encoded slash)")
    if (request.content_length or 0) > passage.max_body_bytes:
        return _too_large(passage)
    path = f"{passage.door.url}/{tail}"
    query = request.rel_url.raw_query_string
    url = URL(f"{path}?{query}" if query else path, encoded=True)
    if request.headers.get("Upgrade", "").lower() == "websocket":
        return await _relay_socket(request, url, passage)
    return await _relay_request(request, tail, url, passage)


def is_plain(tail: str) -> bool:
    """Whether a path stays below the door, however the other side reads it."""
    parts = unquote(tail).replace("\\", "/").split("/")
    is_encoded_slash = re.search(r"%(2f|5c|00)", tail, re.IGNORECASE)
    return not is_encoded_slash and not {".", ".."} & {unquote(part) for part in parts}


async def _relay_request(
    request: web.Request, tail: str, url: URL, passage: Passage
) -> web.StreamResponse:
    body = _BoundedBody(request, passage.max_body_bytes)
    try:
        async with passage.session.request(
            request.method,
            url,
            headers=_headers_out(request, passage),
            data=body.chunks() if request.can_read_body else None,
            allow_redirects=False,
        ) as answer:
            await passage.on_status(answer.status)
            headers = _headers_back(answer)
            if passage.port == CHROMIUM and tail.split("/", maxsplit=1)[0] == "json":
                return await _rewritten(answer, headers, passage)
            return await _stream(request, answer, headers)
    except aiohttp.ClientError:
        if body.is_exceeded:
            return _too_large(passage)
        raise


async def _stream(
    request: web.Request, answer: aiohttp.ClientResponse, headers: CIMultiDict[str]
) -> web.StreamResponse:
    response = web.StreamResponse(status=answer.status, reason=answer.reason, headers=headers)
    await response.prepare(request)
    try:
        async for chunk in answer.content.iter_chunked(_CHUNK_BYTES):
            await response.write(chunk)
    except aiohttp.ClientError:
        # The head is out: hanging up is the only way left to say that the answer is incomplete.
        if request.transport is not None:
            request.transport.abort()
        return response
    await response.write_eof()
    return response


async def _rewritten(
    answer: aiohttp.ClientResponse, headers: CIMultiDict[str], passage: Passage
) -> web.Response:
    content = await answer.content.read(MAX_DEBUGGER_PAGE_BYTES)
    headers.popall("Content-Length", None)
    body = rewrite_debugger(content, passage.door.url, passage.public_url)
    return web.Response(status=answer.status, headers=headers, body=body)


def rewrite_debugger(content: bytes, inner_url: str, public_url: str) -> bytes:
    """Replace the addresses of debugger sockets by those under which a caller reaches them."""
    inner = re.escape(inner_url.partition("://")[2]).encode()
    scheme, _, outer = public_url.partition("://")
    socket = b"wss://" if scheme == "https" else b"ws://"
    content = re.sub(rb"wss?://" + inner + rb"(?=/)", socket + outer.encode(), content)
    return re.sub(rb"\b(wss?)=" + inner + rb"(?=/)", rb"\1=" + outer.encode(), content)


async def _relay_socket(request: web.Request, url: URL, passage: Passage) -> web.StreamResponse:
    wanted = [p.strip() for p in request.headers.get("Sec-WebSocket-Protocol", "").split(",")]
    protocols = [p for p in wanted if p]
    headers = _headers_out(request, passage)
    for name in [n for n in headers if n.lower().startswith("sec-websocket-")]:
        headers.popall(name, None)
    there = await passage.session.ws_connect(
        url, protocols=protocols, headers=headers, max_msg_size=0, heartbeat=PING_S
    )
    here = web.WebSocketResponse(
        protocols=[there.protocol] if there.protocol else (),
        max_msg_size=passage.max_body_bytes,
        heartbeat=PING_S,
        compress=False,
    )
    try:
        await here.prepare(request)
        out = asyncio.create_task(_pump(here, there, passage.on_use))
        back = asyncio.create_task(_pump(there, here, lambda: None))
        try:
            await asyncio.wait({out, back}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            out.cancel()
            back.cancel()
            await asyncio.gather(out, back, return_exceptions=True)
    finally:
        await there.close()
    await here.close(code=there.close_code or aiohttp.WSCloseCode.OK)
    return here


_Socket = web.WebSocketResponse | aiohttp.ClientWebSocketResponse


async def _pump(source: _Socket, sink: _Socket, on_use: Callable[[], None]) -> None:
    async for message in source:
        on_use()
        if message.type is aiohttp.WSMsgType.TEXT:
            await sink.send_str(message.data)
        elif message.type is aiohttp.WSMsgType.BINARY:
            await sink.send_bytes(message.data)


def _headers_out(request: web.Request, passage: Passage) -> CIMultiDict[str]:
    door = passage.door
    named = request.headers.get("Connection", "").lower().split(",")
    kept_back = _NOT_PASSED_ON | {name.strip() for name in named}
    headers = CIMultiDict(
        (name, value) for name, value in request.headers.items() if name.lower() not in kept_back
    )
    meant = request.headers.get("Authorization" if passage.is_local else DESKTOP_AUTHORIZATION)
    headers.popall(DESKTOP_AUTHORIZATION, None)
    if meant is not None:
        headers[DESKTOP_AUTHORIZATION if door.is_gateway else "Authorization"] = meant
    if door.authorization is not None:
        headers["Authorization"] = door.authorization
    return headers


def _headers_back(answer: aiohttp.ClientResponse) -> CIMultiDict[str]:
    return CIMultiDict(
        (name, value) for name, value in answer.headers.items() if name.lower() not in _HOP_BY_HOP
    )


class _BoundedBody:
    """A request's body, cut off when it grows too large."""

    def __init__(self, request: web.Request, limit_bytes: int) -> None:
        self._request = request
        self._limit_bytes = limit_bytes
        self.is_exceeded = False

    async def chunks(self) -> AsyncIterator[bytes]:
        num_bytes = 0
        async for chunk in self._request.content.iter_chunked(_CHUNK_BYTES):
            num_bytes += len(chunk)
            if num_bytes > self._limit_bytes:
                self.is_exceeded = True
                raise aiohttp.ClientPayloadError("the body is too large")
            yield chunk


def _too_large(passage: Passage) -> web.Response:
    return refusal(413, "bad-request", f"the body is larger than {passage.max_body_bytes} bytes")
