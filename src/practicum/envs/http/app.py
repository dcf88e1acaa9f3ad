"""The web application of one server process: routes, admission, health, metrics.

Besides its dialect every server answers `/health` (open to all), `/describe` (environments,
panels and their hashes, version) and `/metrics` (Prometheus). With a token every route but
`/health` wants `Authorization: Bearer …`; without one, requests that come out of a web page
are refused, since any page a user visits could otherwise play.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

import aiohttp
from aiohttp import web

from practicum.core.env import Environment
from practicum.core.metrics import Metrics, Sample, render
from practicum.core.tokens import bears
from practicum.envs.http import wire
from practicum.envs.http.agentgym_server import AgentGymService
from practicum.envs.http.leases import LeaseTable
from practicum.envs.http.native import WS_PATH
from practicum.envs.http.native_server import NativeService
from practicum.envs.http.peers import PEER_MESSAGE, PEER_SAMPLES, Peers
from practicum.envs.http.taskbook import TaskBook

DialectName = Literal["agentgym", "native"]
MAX_REQUEST_BYTES = 4 * 2**20
PING_S = 30.0
"""A connection whose other end is silent for so long is dropped; its lease lives on."""

_SENTENCES = {
    "opened_total": "Sessions opened.",
    "closed_total": "Sessions closed, also by running out.",
    "expired_total": "Sessions that ran out.",
    "busy_total": "Requests turned away because every place was taken.",
    "steps_total": "Steps carried out.",
    "step_seconds_total": "Time spent in steps.",
    "repeated_total": "Steps answered from the record because they were sent again.",
    "errors_total": "Broken episodes by boundary and kind.",
    "forwarded_total": "Requests passed on to the worker that has the session.",
    "sessions": "Sessions held.",
    "capacity": "Sessions that can be held.",
}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Place:
    """Which of the server's processes this is."""

    worker: int = 0
    num_workers: int = 1
    folder: Path | None = None
    """Where the workers' sockets are."""


@dataclass(frozen=True, slots=True)
class Terms:
    """On which terms a server is used."""

    dialect: DialectName = "native"
    capacity: int = 1024
    """Sessions at a time, over all workers."""
    ttl_s: float = 300.0
    """A session that is not used or renewed for so long is closed."""
    token: str | None = field(default=None, repr=False)
    max_request_bytes: int = MAX_REQUEST_BYTES


class ServerApp:
    """One process of a server."""

    def __init__(
        self, environments: Mapping[str, Environment], terms: Terms, place: Place | None = None
    ) -> None:
        place = place or Place()
        self.environments = environments
        self.terms = terms
        self.place = place
        self.metrics = Metrics()
        share = -(-terms.capacity // place.num_workers)
        self.leases = LeaseTable(share, terms.ttl_s, self.metrics, place.worker, place.num_workers)
        self.peers = Peers(place.folder, place.worker, place.num_workers, terms.token, self.metrics)
        self._sockets: set[web.WebSocketResponse] = set()

    def build(self) -> web.Application:
        """Build the application."""
        app = web.Application(
            client_max_size=self.terms.max_request_bytes, middlewares=[self._admit]
        )
        app.add_routes(
            [
                web.get("/health", self._health),
                web.get("/describe", self._describe),
                web.get("/metrics", self._metrics),
                web.get(PEER_SAMPLES, self._own_samples),
            ]
        )
        if self.terms.dialect == "native":
            self._native = NativeService(self.environments, self.leases, self.peers)
            app.add_routes(
                [web.get(WS_PATH, self._talk), web.post(PEER_MESSAGE, self._peer_message)]
            )
        else:
            app.router.add_get("/", self._ok)
            for env_id, environment in self.environments.items():
                service = AgentGymService(environment, self.leases, self.peers)
                app.add_routes(service.routes(self.path_of(env_id)))
        app.cleanup_ctx.append(self._run)
        app.on_shutdown.append(self._hang_up)
        return app

    def path_of(self, env_id: str) -> str:
        """Where an environment's routes are: at the root if it is the only one."""
        return "" if len(self.environments) == 1 else f"/{env_id}"

    @cached_property
    def description(self) -> Mapping[str, Any]:
        """What the server says of itself."""
        envs = {
            env_id: {
                "path": self.path_of(env_id),
                "max_turns": environment.max_turns,
                "panels": TaskBook(environment).describe(),
            }
            for env_id, environment in self.environments.items()
        }
        return {
            "practicum": _version(),
            "dialect": self.terms.dialect,
            "envs": envs,
            "capacity": self.terms.capacity,
            "ttl_s": self.terms.ttl_s,
            "workers": self.place.num_workers,
        }

    @web.middleware
    async def _admit(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        token = self.terms.token
        if token is None:
            if "Origin" in request.headers:
                return _json({"error": "not from a web page", "kind": "unauthorized"}, 403)
        elif request.path != "/health" and not bears(request.headers.get("Authorization"), token):
            return _json({"error": "no or wrong token", "kind": "unauthorized"}, 401)
        return await handler(request)

    async def _run(self, _: web.Application) -> AsyncIterator[None]:
        sweeper = asyncio.create_task(self.leases.sweep_for_ever())
        yield
        sweeper.cancel()
        with suppress(asyncio.CancelledError):
            await sweeper
        await self.leases.aclose()
        for environment in self.environments.values():
            await environment.aclose()
        await self.peers.aclose()

    async def _hang_up(self, _: web.Application) -> None:
        away = aiohttp.WSCloseCode.GOING_AWAY
        await asyncio.gather(*(socket.close(code=away) for socket in list(self._sockets)))

    async def _talk(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(
            heartbeat=PING_S, max_msg_size=self.terms.max_request_bytes, compress=False
        )
        await socket.prepare(request)
        self._sockets.add(socket)
        try:
            async for message in socket:
                if message.type is not aiohttp.WSMsgType.TEXT:
                    break
                answer = await self._native.answer(message.data)
                if socket.closed:
                    break
                await socket.send_str(answer)
        except ConnectionError:
            pass  # the client is gone; what it had leased is kept for its return
        finally:
            self._sockets.discard(socket)
        return socket

    async def _peer_message(self, request: web.Request) -> web.Response:
        text = await request.text()
        return web.Response(text=await self._native.answer(text, is_passed_on=True))

    async def _ok(self, _: web.Request) -> web.Response:
        return _json("ok")

    async def _health(self, _: web.Request) -> web.Response:
        samples = await self._samples()
        return _json(
            {
                "status": "ok",
                "practicum": _version(),
                "dialect": self.terms.dialect,
                "sessions": int(sum(value for name, _, value in samples if name == "sessions")),
                "capacity": self.terms.capacity,
                "workers": len({labels["worker"] for _, labels, _ in samples}),
            }
        )

    async def _describe(self, _: web.Request) -> web.Response:
        return _json(self.description)

    async def _metrics(self, _: web.Request) -> web.Response:
        text = render(await self._samples(), _SENTENCES)
        return web.Response(text=text, content_type="text/plain", charset="utf-8")

    async def _own_samples(self, _: web.Request) -> web.Response:
        return _json(self._samples_here())

    async def _samples(self) -> list[Sample]:
        others = [(name, labels, value) for name, labels, value in await self.peers.samples()]
        return [*self._samples_here(), *others]

    def _samples_here(self) -> list[Sample]:
        held: list[Sample] = [
            ("sessions", {}, float(len(self.leases))),
            ("capacity", {}, float(self.leases.capacity)),
        ]
        worker = {"worker": str(self.place.worker)}
        return [(n, labels | worker, v) for n, labels, v in [*self.metrics.samples(), *held]]


def _json(value: Any, status: int = 200) -> web.Response:
    return web.Response(
        body=wire.write(value).encode(), status=status, content_type="application/json"
    )


def _version() -> str:
    try:
        return version("practicum")
    except PackageNotFoundError:
        return "unknown"
