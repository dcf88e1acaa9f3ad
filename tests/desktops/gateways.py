"""Gateways over machines without a screen, whose ports are small web servers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from aiohttp import web
from desktops.memory import MemoryMachine

from practicum.config.pool import PoolConfig
from practicum.core.metrics import Metrics
from practicum.core.sockets import listen, url_of
from practicum.desktops.gateway.accounts import Account, Accounts
from practicum.desktops.gateway.app import GatewayApp
from practicum.desktops.gateway.audit import Audit
from practicum.desktops.gateway.doors import Door, Doors
from practicum.desktops.gateway.hosts import Host, PoolHost
from practicum.desktops.gateway.server import serving
from practicum.desktops.pool import Pool

TOKEN = "the-token-of-the-tests"
OTHER = "the-token-of-someone-else"
INNER = "Bearer the-token-of-the-desktop"


@dataclass(eq=False)
class PortMachine(MemoryMachine):
    """A machine whose every port is the same web server, which says what it was asked."""

    url: str = ""
    asked: list[str] = field(default_factory=list)
    _runner: web.AppRunner | None = None

    @property
    def doors(self) -> Doors:
        return {
            "server": Door(self.url, INNER),
            "chromium": Door(self.url),
            "vlc": Door(self.url),
        }

    async def start(self) -> None:
        await super().start()
        app = web.Application(client_max_size=2**30)
        app.router.add_get("/json/version", self._version)
        app.router.add_get("/devtools/browser/1", self._devtools)
        app.router.add_route("*", "/{tail:.*}", self._answer)
        listener = listen("127.0.0.1", 0)
        self.url = url_of(listener)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.SockSite(self._runner, listener).start()

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        await super().stop()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.asked.append(f"{request.method} {request.raw_path}")
        if request.path == "/fails":
            return web.json_response({"status": "error"}, status=500)
        if request.path == "/slow":
            await asyncio.sleep(0.1)
        if request.path == "/big":
            return web.Response(body=b"x" * 3_000_000)
        seen = {
            "machine": self.id,
            "method": request.method,
            "path": request.raw_path,
            "headers": dict(request.headers),
            "num_bytes": len(body),
            "dirt": self.dirt,
        }
        self.dirt = request.query.get("dirt", self.dirt)
        status = 200 if request.path == "/screenshot" else 201
        return web.json_response(seen, status=status, headers={"X-Own": "yes"})

    async def _version(self, request: web.Request) -> web.Response:
        # As Chromium does: the address is the one it was asked under.
        url = f"ws://{request.host}/devtools/browser/1"
        page = f"/devtools/inspector.html?ws={request.host}/devtools/browser/1"
        return web.json_response({"webSocketDebuggerUrl": url, "devtoolsFrontendUrl": page})

    async def _devtools(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        assert "Origin" not in request.headers
        async for message in socket:
            if message.type is aiohttp.WSMsgType.TEXT:
                if message.data == "bye":
                    await socket.close(code=4000)
                await socket.send_str(f"{self.id}: {message.data}")
            else:
                await socket.send_bytes(message.data[::-1])
        return socket


class PortFactory:
    """Makes such machines and keeps them for the test to look at."""

    def __init__(self) -> None:
        self.machines: list[PortMachine] = []

    def __call__(self) -> PortMachine:
        machine = PortMachine(f"m{len(self.machines)}")
        self.machines.append(machine)
        return machine


@dataclass
class Running:
    """A gateway that serves."""

    url: str
    app: GatewayApp
    audit_path: Path | None

    def audit(self) -> list[dict[str, object]]:
        assert self.audit_path is not None
        return [json.loads(line) for line in self.audit_path.read_text().splitlines()]


@asynccontextmanager
async def gateway(
    factory: PortFactory | None = None,
    *,
    size: int = 2,
    ttl_s: float = 30,
    max_leases: int = 8,
    requests_per_s: float | None = None,
    audit_path: Path | None = None,
    hosts: list[Host] | None = None,
    **terms: int,
) -> AsyncIterator[Running]:
    """A gateway with a pool and two accounts."""
    metrics = Metrics()
    accounts = Accounts(
        [
            Account("ours", TOKEN, max_leases, requests_per_s),
            Account("theirs", OTHER, max_leases),
        ]
    )
    if hosts is None:
        config = PoolConfig(size=size, spares=0)
        pool = Pool(factory or PortFactory(), config, ttl_s=1e6, metrics=metrics, name="here")
        hosts = [PoolHost(pool)]  # type: ignore[arg-type]
    app = GatewayApp(
        hosts,
        accounts,
        metrics,
        Audit(audit_path),
        ttl_s=ttl_s,
        max_wait_s=5,
        max_waiting=terms.get("max_waiting", 100),
        max_body_bytes=terms.get("max_body_bytes", 1_000_000),
    )
    async with serving(app, "127.0.0.1", 0) as url:
        yield Running(url, app, audit_path)


@asynccontextmanager
async def calling(token: str | None = TOKEN) -> AsyncIterator[aiohttp.ClientSession]:
    """A plain HTTP client."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with aiohttp.ClientSession(headers=headers) as session:
        yield session
