"""`practicum proxy`: a proxy from its config, until it is told to stop."""

from __future__ import annotations

import asyncio
import secrets
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from practicum.config.proxy import ProxyConfig
from practicum.core.errors import ConfigError, unknown_name
from practicum.core.sockets import listen, url_of
from practicum.core.tokens import read_token
from practicum.policies.model_spec import MODEL_SPECS, make_hf, make_vllm, read_endpoint
from practicum.policies.proxy.app import ProxyApp, Terms
from practicum.policies.proxy.endpoint import EndpointUpstream
from practicum.policies.proxy.upstream import PolicyUpstream, Upstream
from practicum.policies.rendering import Renderer
from practicum.policies.token_endpoint import TokenEndpointPolicy

BACKLOG = 1024
SHUTDOWN_S = 5.0
KEEP_ALIVE_S = 600.0

OnReady = Callable[[str, str], None]


def serve(config: ProxyConfig, on_ready: OnReady) -> None:
    """Serve until told to stop (SIGTERM, SIGINT); `on_ready` gets the URL and the admin key."""
    asyncio.run(_serve_until_stopped(config, on_ready))


async def _serve_until_stopped(config: ProxyConfig, on_ready: OnReady) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    terms = read_terms(config)
    upstream = make_upstream(config)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with running(upstream, terms, config.host, config.port) as (url, _):
        on_ready(url, terms.admin_key)
        await stop.wait()


@asynccontextmanager
async def running(
    upstream: Upstream, terms: Terms, host: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[tuple[str, ProxyApp]]:
    """Serve in the running event loop; gives the URL and the application."""
    proxy = ProxyApp(upstream, terms)
    with listen(host, port) as listener:
        runner = web.AppRunner(
            proxy.build(),
            access_log=None,
            handle_signals=False,
            # An agent that hangs up wants no answer: nothing of it is put on record.
            handler_cancellation=True,
            shutdown_timeout=SHUTDOWN_S,
            keepalive_timeout=KEEP_ALIVE_S,
        )
        await runner.setup()
        try:
            await web.SockSite(runner, listener, backlog=BACKLOG).start()
            yield url_of(listener), proxy
        finally:
            await runner.cleanup()


def read_terms(config: ProxyConfig) -> Terms:
    """The terms of a config, with the admin key from its variable or a new one."""
    variable = config.admin_key_env
    return Terms(
        admin_key=secrets.token_urlsafe(32) if variable is None else read_token(env=variable),
        ttl_s=config.ttl_s,
        max_sessions=config.max_sessions,
        capacity=config.capacity,
        max_body_bytes=int(config.max_body_mb * 1e6),
    )


def make_upstream(config: ProxyConfig) -> Upstream:
    """What answers; a spec that means nothing is a `ConfigError`."""
    kind, _, rest = config.upstream.partition(":")
    if config.tokenizer is not None and kind != "openai":
        raise ConfigError(f"tokenizer: {kind} has its own; it is for openai:MODEL@BASE_URL")
    if config.endpoint.seed:
        raise ConfigError("endpoint.seed: a proxy passes on the seeds that agents send")
    if kind == "openai" and rest:
        endpoint = read_endpoint(config.upstream, config.endpoint)
        if config.tokenizer is None:
            return EndpointUpstream(endpoint)
        asked = TokenEndpointPolicy(endpoint, Renderer.load(Path(config.tokenizer)))
        return PolicyUpstream(asked, asked.renderer, endpoint.model)
    if kind == "hf" and rest:
        local = make_hf(rest, config.hf, config.concurrency)
        return PolicyUpstream(local, local.renderer, rest)
    if kind == "vllm" and rest:
        engine = make_vllm(rest, config.vllm)
        return PolicyUpstream(engine, engine.renderer, rest)
    raise unknown_name("upstream", config.upstream, MODEL_SPECS)
