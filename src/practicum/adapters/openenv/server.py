"""`practicum serve --dialect openenv`: an environment of ours on OpenEnv's own server."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any

from practicum.adapters.stepwise import World
from practicum.core.errors import ConfigError
from practicum.core.sockets import is_loopback, listen, url_of
from practicum.core.tokens import bears

try:
    import uvicorn
    from openenv.core.env_server.http_server import create_fastapi_app
    from openenv.core.env_server.types import ConcurrencyConfig

    from practicum.adapters.openenv.environment import (
        EpisodeState,
        PracticumEnvironment,
        TextAction,
        TextObservation,
    )
except ImportError as error:
    raise ConfigError(
        f"serving with OpenEnv needs {error.name}: pip install 'practicum[openenv]'"
    ) from error

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

UNAUTHORISED = 401
POLICY_VIOLATION = 1008
WEBSOCKETS = "websockets-sansio"
"""uvicorn's usual implementation is the deprecated one of that library."""


def serve(
    env_id: str,
    *,
    port: int = 0,
    host: str = "127.0.0.1",
    capacity: int = 1024,
    ttl_s: float = 300.0,
    token: str | None = None,
    format_name: str | None = None,
    options: Mapping[str, Any] | None = None,
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """Serve until told to stop (SIGTERM, SIGINT); `on_ready` gets the URL once it listens."""
    if token is None and not is_loopback(host):
        raise ConfigError(
            f"{host} can be reached from other machines, and there is no token: "
            "give --token-env VAR, or serve on 127.0.0.1"
        )
    world = World(env_id, format_name=format_name, options=options)
    try:
        with listen(host, port) as listener:
            app = make_app(world, capacity=capacity, ttl_s=ttl_s, token=token)
            server = _Server(uvicorn.Config(app, log_level="warning", ws=WEBSOCKETS))
            listener.listen()
            if on_ready is not None:
                on_ready(url_of(listener))
            server.run(sockets=[listener])
    finally:
        world.close()


class _Server(uvicorn.Server):  # type: ignore[misc]
    """Ends on a signal; uvicorn's own would then raise it again, before the world is closed."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take signals while it serves."""
        before = {s: signal.signal(s, self.handle_exit) for s in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def make_app(
    world: World, *, capacity: int = 1024, ttl_s: float = 300.0, token: str | None = None
) -> App:
    """OpenEnv's application over a world; a silent session without a connection is ended."""
    app: App = create_fastapi_app(
        lambda: PracticumEnvironment(world),
        TextAction,
        TextObservation,
        concurrency_config=ConcurrencyConfig(max_concurrent_envs=capacity, session_timeout=ttl_s),
        env_name=world.environment.id,
        state_cls=EpisodeState,
    )
    return app if token is None else _guarded(app, token)


def _guarded(app: App, token: str) -> App:
    """Let nobody in who does not bear the token."""

    async def guard(scope: Message, receive: Receive, send: Send) -> None:
        headers = dict(scope.get("headers", ()))
        given = headers.get(b"authorization", b"").decode("latin-1")
        if scope["type"] == "lifespan" or bears(given, token):
            await app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": POLICY_VIOLATION})
        else:
            await send({"type": "http.response.start", "status": UNAUTHORISED, "headers": []})
            await send({"type": "http.response.body", "body": b"a token is needed"})

    return guard
