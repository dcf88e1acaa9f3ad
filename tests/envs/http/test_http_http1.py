"""The small HTTP client reads whole answers, whatever pieces they come in."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from envs.http.agentgym_stand_ins import serving
from hypothesis import given
from hypothesis import strategies as st

from practicum.core.errors import ConfigError
from practicum.envs.http.calls import Caller
from practicum.envs.http.http1 import Client, ProtocolError, num_expected, parse

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5\r\n\r\n[1,2]"
CHUNKED = (
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    b"3;x=y\r\n[1,\r\n2\r\n2]\r\n0\r\nTrailer: x\r\n\r\n"
)
INFORMED = b"HTTP/1.1 100 Continue\r\n\r\n" + PLAIN


@pytest.mark.parametrize("data", [PLAIN, CHUNKED, INFORMED])
def test_an_answer_is_read_when_it_is_complete_and_not_before(data: bytes) -> None:
    for end in range(len(data)):
        assert parse(data[:end], is_complete=False) is None
        assert num_expected(bytearray(data[:end])) in (0, len(data), len(INFORMED) - len(PLAIN))
    found = parse(data + b"HTTP", is_complete=False)
    assert found is not None
    response, num_bytes = found
    assert (response.status, response.body, num_bytes) == (200, b"[1,2]", len(data))
    assert response.can_go_on


def test_without_a_length_the_end_of_the_connection_is_the_end() -> None:
    data = b"HTTP/1.0 200 OK\r\nContent-Type: text/html; charset=x\r\n\r\n<html>"
    assert parse(data, is_complete=False) is None
    found = parse(data, is_complete=True)
    assert found is not None and found[0].body == b"<html>" and not found[0].can_go_on
    assert found[0].content_type == "text/html"


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n",
        b"HTTP/1.1 200 " + b"x" * 70_000,
    ],
)
def test_what_is_not_http_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse(data, is_complete=False)


@given(st.binary(max_size=200))
def test_no_bytes_make_it_fail_otherwise(data: bytes) -> None:
    for start in (b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\n\r\n"):
        with contextlib.suppress(ProtocolError, ValueError):
            parse(start + data, is_complete=True)


async def test_a_connection_is_kept_and_a_stale_one_is_not_used() -> None:
    from aiohttp import web

    ports: list[int] = []

    async def answer(request: web.Request) -> web.Response:
        assert request.transport is not None
        ports.append(request.transport.get_extra_info("peername")[1])
        return web.json_response(len(ports), status=500 if request.path == "/bad" else 200)

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    async with serving(app) as url:
        client = Client(url, {})
        for path in ("/a", "/b", "/bad", "/c", "/d"):
            await client.request("GET", path)
        assert ports[0] == ports[1] == ports[2], "kept"
        assert ports[3] == ports[4] != ports[2], "not used after a 500"
        client._idle[0]._last_used_s -= 10
        await client.request("GET", "/e")
        assert ports[5] != ports[4], "not used after a pause"
        await client.aclose()


async def test_a_large_answer_in_many_pieces_arrives() -> None:
    body = b'"' + b"x" * 5_000_000 + b'"'

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body))
        for start in range(0, len(body), 50_000):
            writer.write(body[start : start + 50_000])
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    client = Client(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", {})
    response = await client.request("GET", "/")
    assert response.body == body
    await client.aclose()
    server.close()


def test_a_token_cannot_smuggle_a_header() -> None:
    with pytest.raises(ConfigError):
        Caller("http://h", "word\r\nX-Admin: 1")
