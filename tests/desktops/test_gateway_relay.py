"""What passes through: bodies, headers, debugger sockets, local ports, bridges."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import aiohttp
import pytest
from desktops.gateways import INNER, OTHER, TOKEN, PortFactory, calling, gateway
from desktops.test_gateway import take

from practicum.desktops.gateway.client import GatewayClient
from practicum.desktops.gateway.forward import forwarded, osworld_address
from practicum.desktops.gateway.hosts import BridgeHost
from practicum.desktops.gateway.relay import is_plain, rewrite_debugger
from practicum.desktops.provider import leased


@pytest.fixture
async def desktop() -> AsyncIterator[tuple[aiohttp.ClientSession, str]]:
    """A leased desktop: a client, and where it is."""
    async with gateway() as running, calling() as http:
        lease = await take(http, running.url)
        yield http, f"{running.url}/leases/{lease['lease']}"


Desktop = tuple[aiohttp.ClientSession, str]


async def test_the_gateways_token_stays_with_the_gateway(desktop: Desktop) -> None:
    http, base = desktop
    sent = {"Origin": "http://evil", "Connection": "X-Hop", "X-Hop": "1", "X-Kept": "2"}
    async with http.get(f"{base}/server/x", headers=sent) as answer:
        seen = (await answer.json())["headers"]
    assert "X-Hop" not in seen and seen["X-Kept"] == "2"
    assert seen["Authorization"] == INNER
    assert "Origin" not in seen and seen["Host"].startswith("127.0.0.1:")
    async with http.get(f"{base}/vlc/x") as answer:
        assert "Authorization" not in (await answer.json())["headers"]
    meant = {"X-Desktop-Authorization": "Basic OnBhc3N3b3Jk"}
    async with http.get(f"{base}/vlc/x", headers=meant) as answer:
        seen = (await answer.json())["headers"]
    assert seen["Authorization"] == "Basic OnBhc3N3b3Jk"
    assert "X-Desktop-Authorization" not in seen


async def test_large_bodies_pass_in_both_directions_up_to_the_limit(desktop: Desktop) -> None:
    http, base = desktop
    async with http.post(f"{base}/server/upload", data=b"x" * 999_000) as answer:
        assert (await answer.json())["num_bytes"] == 999_000
    async with http.get(f"{base}/server/big") as answer:
        assert len(await answer.read()) == 3_000_000


async def test_oversized_bodies_are_refused_with_and_without_a_length(desktop: Desktop) -> None:
    http, base = desktop

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(2000):
            yield b"x" * 1000

    for data in (b"x" * 1_000_001, endless()):
        try:
            async with http.post(f"{base}/server/upload", data=data) as answer:
                assert answer.status == 413
        except aiohttp.ClientConnectionError:
            pass  # it hung up before the rest was sent, which says the same
    async with http.get(f"{base}/server/x") as answer:
        assert answer.status == 201


@pytest.mark.parametrize(
    "tail",
    ["../x", "a/../../x", "%2e%2e/x", "a/%2E./x", "..%2fx", "a%2f..%2fx", "..%5cx", "..\\x", "./x"],
)
def test_paths_that_climb_are_seen(tail: str) -> None:
    assert not is_plain(tail)


def test_plain_paths_are_seen() -> None:
    for tail in ("", "screenshot", "a/b.c", "a..b", "json/new", "a%20b", "devtools/browser/1-2"):
        assert is_plain(tail)


async def test_paths_that_climb_are_refused(desktop: Desktop) -> None:
    _, base = desktop
    host = base.split("/")[2]
    for tail in ("%2e%2e/%2e%2e/metrics", "..%2f..%2fmetrics", "..\\metrics", "a/./b"):
        # By hand: a well-behaved client would tidy the path up.
        reader, writer = await asyncio.open_connection(*host.split(":"))
        path = "/" + base.split("/", 3)[3]
        writer.write(
            f"GET {path}/server/{tail} HTTP/1.1\r\nHost: {host}\r\n"
            f"Authorization: Bearer {TOKEN}\r\nConnection: close\r\n\r\n".encode()
        )
        answer = await reader.read()
        writer.close()
        assert b" 400 " in answer.split(b"\r\n")[0], tail


async def test_debugger_addresses_lead_back_through_the_gateway(desktop: Desktop) -> None:
    http, base = desktop
    async with http.get(f"{base}/chromium/json/version") as answer:
        page = await answer.json()
    inner = base.partition("://")[2]
    assert page["webSocketDebuggerUrl"] == f"ws://{inner}/chromium/devtools/browser/1"
    assert page["devtoolsFrontendUrl"].endswith(f"?ws={inner}/chromium/devtools/browser/1")
    async with http.ws_connect(page["webSocketDebuggerUrl"], origin="http://evil") as socket:
        await socket.send_str("hello")
        assert (await socket.receive_str()).endswith(": hello")
        await socket.send_bytes(b"abc" * 300_000)
        assert await socket.receive_bytes() == b"cba" * 300_000
        await socket.send_str("bye")
        closed = await socket.receive()
        while closed.type is aiohttp.WSMsgType.TEXT:
            closed = await socket.receive()
        assert socket.close_code == 4000


async def test_an_idle_debugger_socket_does_not_hold_a_lease() -> None:
    async with gateway(ttl_s=1) as running, calling() as http:
        lease = await take(http, running.url)
        url = f"{running.url}/leases/{lease['lease']}/chromium/devtools/browser/1"
        async with http.ws_connect(url) as socket:
            for _ in range(5):
                await socket.send_str("used")
                await socket.receive_str()
                await asyncio.sleep(0.1)
            message = await socket.receive(timeout=20)  # it runs out, and that ends the socket
            assert message.type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED)
        assert len(running.app.desk.leases) == 0


def test_rewriting_knows_both_schemes() -> None:
    page = json.dumps({"u": "ws://localhost:9222/devtools/x", "o": "ws://localhost:92221/x"})
    found = rewrite_debugger(page.encode(), "http://localhost:9222", "https://gate/leases/1/c")
    assert json.loads(found) == {
        "u": "wss://gate/leases/1/c/devtools/x",
        "o": "ws://localhost:92221/x",
    }


async def test_local_ports_serve_clients_that_know_no_tokens() -> None:
    async with (
        gateway() as running,
        GatewayClient(running.url, TOKEN) as client,
        leased(await client.take()) as lease,
        forwarded(lease.doors) as ports,
    ):
        address = osworld_address(ports)
        host, server, chromium, vnc, vlc = address.split(":")
        assert (host, vnc) == ("127.0.0.1", "9")
        async with aiohttp.ClientSession() as plain:
            async with plain.post(f"http://{host}:{server}/execute", json={}) as answer:
                seen = await answer.json()
            assert (seen["path"], seen["headers"]["Authorization"]) == ("/execute", INNER)
            password = {"Authorization": "Basic OnBhc3N3b3Jk"}
            url = f"http://{host}:{vlc}/requests/x"
            async with plain.get(url, headers=password) as answer:
                seen = (await answer.json())["headers"]
            assert seen["Authorization"] == "Basic OnBhc3N3b3Jk"
            async with plain.get(f"http://{host}:{chromium}/json/version") as answer:
                url = (await answer.json())["webSocketDebuggerUrl"]
            assert url == f"ws://{host}:{chromium}/devtools/browser/1"
            async with plain.ws_connect(url) as socket:
                await socket.send_str("hello")
                assert (await socket.receive_str()).endswith(": hello")
            for headers in ({"Origin": "http://evil"}, {"Host": "evil.example"}):
                url = f"http://{host}:{server}/execute"
                async with plain.post(url, headers=headers) as answer:
                    assert answer.status == 403
        with pytest.raises(ValueError, match="no port vnc"):
            async with forwarded(lease.doors, {"vnc": 5900}):
                pass


async def test_a_bridge_is_one_more_host() -> None:
    factory = PortFactory()
    async with gateway(factory, size=1) as far:
        bridge = BridgeHost("far", GatewayClient(far.url, OTHER), size=1)
        async with gateway(hosts=[bridge]) as near, calling() as http:
            lease = await take(http, near.url, wait_s=5)
            base = f"{near.url}/leases/{lease['lease']}"
            assert lease["ports"] == ["chromium", "server", "vlc"]
            auth = {"X-Desktop-Authorization": "Basic OnBhc3N3b3Jk"}
            async with http.get(f"{base}/vlc/x", headers=auth) as answer:
                seen = await answer.json()
            assert seen["headers"]["Authorization"] == "Basic OnBhc3N3b3Jk"
            async with http.get(f"{base}/server/x") as answer:
                assert (await answer.json())["headers"]["Authorization"] == INNER
            async with http.get(f"{base}/chromium/json/version") as answer:
                url = (await answer.json())["webSocketDebuggerUrl"]
            assert url == f"{base}/chromium/devtools/browser/1".replace("http:", "ws:")
            async with http.ws_connect(url) as socket:
                await socket.send_str("hello")
                assert await socket.receive_str() == "m0: hello"
            async with http.post(f"{near.url}/leases", json={"wait_s": 0.05}) as answer:
                assert answer.status == 429
            factory.machines[0].is_up = False
            async with http.post(f"{base}/heartbeat") as answer:
                assert (answer.status, answer.headers["X-Practicum-Fault"]) == (410, "x-server")
            healed = await take(http, near.url, wait_s=5)
            url = f"{near.url}/leases/{healed['lease']}/server/x"
            async with http.get(url) as answer:
                assert (await answer.json())["machine"] == "m1"
        assert len(far.app.desk.leases) == 0
