"""`practicum serve`: environments on a socket, in one process or several.

With several workers the parent only reserves the port, starts the workers and starts anew
one that died. Each worker listens on the port with a socket of its own and the kernel deals
out connections: one socket for all would let whoever wakes first take a whole burst.
Workers leave when the parent does, however it ends.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import signal
import socket
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

from aiohttp import web

from practicum.core.env import Environment
from practicum.core.errors import ConfigError
from practicum.core.sockets import is_loopback, listen, url_of
from practicum.envs import registry
from practicum.envs.http.app import DialectName, Place, ServerApp, Terms

logger = logging.getLogger(__name__)

BACKLOG = 1024
SHUTDOWN_S = 5.0
KEEP_ALIVE_S = 600.0

OnReady = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Wares:
    """Which environments are served, and how they are made."""

    env_ids: tuple[str, ...]
    options: Mapping[str, Any]

    def load(self) -> dict[str, Environment]:
        """Make them; raises `ConfigError` if one cannot be made."""
        loaded = [registry.load_env(env_id, **self.options) for env_id in self.env_ids]
        return {environment.id: environment for environment in loaded}


def serve(
    env_ids: Sequence[str],
    port: int = 0,
    dialect: DialectName = "native",
    workers: int = 1,
    capacity: int = 1024,
    ttl_s: float = 300.0,
    token: str | None = None,
    host: str = "127.0.0.1",
    on_ready: OnReady | None = None,
    options: Mapping[str, Any] | None = None,
) -> None:
    """Serve until told to stop (SIGTERM, SIGINT); `on_ready` gets the URL once it serves.

    `options` go to the factory of every environment served.
    """
    wares = Wares(tuple(env_ids), dict(options or {}))
    terms = Terms(dialect, capacity, ttl_s, token)
    _check(wares, terms, workers, host)
    with listen(host, port, is_shared=workers > 1) as listener:
        url = url_of(listener)

        def announce() -> None:
            if on_ready is not None:
                on_ready(url)

        if workers == 1:
            asyncio.run(_serve_until_stopped(wares, terms, Place(), listener, announce, None))
        else:
            # A mistake in the user's input shows here, once, and not in every worker.
            wares.load()
            _supervise(wares, terms, workers, listener, announce)


@asynccontextmanager
async def running(
    environments: Mapping[str, Environment],
    terms: Terms,
    listener: socket.socket | None = None,
    place: Place | None = None,
) -> AsyncIterator[tuple[str, ServerApp]]:
    """Serve in the running event loop; gives the URL and the application."""
    listener = listener or listen("127.0.0.1", 0)
    listener.listen(BACKLOG)
    url = url_of(listener)
    server = ServerApp(environments, terms, place)
    runner = web.AppRunner(
        server.build(),
        access_log=None,
        handle_signals=False,
        shutdown_timeout=SHUTDOWN_S,
        keepalive_timeout=KEEP_ALIVE_S,
    )
    await runner.setup()
    try:
        await web.SockSite(runner, listener, backlog=BACKLOG).start()
        if place is not None and place.folder is not None:
            await web.UnixSite(runner, str(server.peers.socket_of(place.worker))).start()
        yield url, server
    finally:
        await runner.cleanup()


def _check(wares: Wares, terms: Terms, workers: int, host: str) -> None:
    if not wares.env_ids:
        raise ConfigError("nothing to serve: name an environment")
    if workers < 1 or terms.capacity < workers or terms.ttl_s <= 0:
        raise ConfigError(
            f"{workers} workers, capacity {terms.capacity}, time to live {terms.ttl_s:g} s: "
            "there must be a worker, a place for each, and a time to live"
        )
    if terms.token is None and not is_loopback(host):
        raise ConfigError(
            f"{host} can be reached from other machines, and there is no token: "
            "give --token-env VAR, or serve on 127.0.0.1"
        )
    if terms.token is not None and not terms.token.strip():
        raise ConfigError("the token is empty")


async def _serve_until_stopped(
    wares: Wares,
    terms: Terms,
    place: Place,
    listener: socket.socket,
    announce: Callable[[], None],
    parent: Connection | None,
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if parent is not None:
        # Readable only when the parent has gone: it never sends anything.
        loop.add_reader(parent.fileno(), stop.set)
    async with running(wares.load(), terms, listener, place) as (_, server):
        # Panels are read before the first client comes, not while it waits.
        assert server.description
        announce()
        await stop.wait()
        if parent is not None:
            loop.remove_reader(parent.fileno())


def _work(
    wares: Wares,
    terms: Terms,
    place: Place,
    address: tuple[str, int],
    parent: Connection,
) -> None:
    with listen(*address, is_shared=True) as listener:
        asyncio.run(
            _serve_until_stopped(
                wares, terms, place, listener, lambda: parent.send(place.worker), parent
            )
        )


def _supervise(
    wares: Wares,
    terms: Terms,
    num_workers: int,
    listener: socket.socket,
    announce: Callable[[], None],
) -> None:
    context = multiprocessing.get_context("spawn")
    stop_here, stop_there = context.Pipe(duplex=False)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop_there.send(None))
    with tempfile.TemporaryDirectory(prefix="practicum-serve-") as folder:
        crew: dict[int, tuple[SpawnProcess, Connection]] = {}

        def start(worker: int) -> None:
            here, there = context.Pipe()
            place = Place(worker, num_workers, Path(folder))
            address = listener.getsockname()[:2]
            process = context.Process(target=_work, args=(wares, terms, place, address, there))
            process.start()
            there.close()
            crew[worker] = (process, here)

        try:
            for worker in range(num_workers):
                start(worker)
            _watch(crew, start, stop_here, announce)
        finally:
            for process, _ in crew.values():
                process.terminate()
            for process, connection in crew.values():
                process.join(SHUTDOWN_S * 2)
                if process.is_alive():
                    process.kill()
                    process.join()
                connection.close()


def _watch(
    crew: Mapping[int, tuple[SpawnProcess, Connection]],
    start: Callable[[int], None],
    stop: Connection,
    announce: Callable[[], None],
) -> None:
    """Announce when all serve; start anew who dies; return when told to stop."""
    ready: set[int] = set()
    is_announced = False
    while True:
        sentinels = {process.sentinel: worker for worker, (process, _) in crew.items()}
        waiting = {connection: worker for worker, (_, connection) in crew.items()}
        for event in wait([*sentinels, *(c for c, w in waiting.items() if w not in ready), stop]):
            if event is stop:
                return
            if isinstance(event, Connection):
                try:
                    event.recv()
                    ready.add(waiting[event])
                except EOFError:
                    ready.discard(waiting[event])
            elif isinstance(event, int):
                worker = sentinels[event]
                if not is_announced:
                    raise ConfigError(f"worker {worker} did not start; see its message above")
                logger.warning("worker %d died and is started anew; its sessions are lost", worker)
                ready.discard(worker)
                start(worker)
        if len(ready) == len(crew) and not is_announced:
            is_announced = True
            announce()
