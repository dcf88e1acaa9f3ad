"""`practicum gateway`: a gateway from its config, until it is told to stop."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from practicum.config.gateway import (
    BridgeHostConfig,
    GatewayConfig,
    HostConfig,
    LocalHostConfig,
    SecretConfig,
    ServersHostConfig,
    TlsConfig,
)
from practicum.config.pool import PoolConfig
from practicum.core.errors import ConfigError
from practicum.core.metrics import Metrics
from practicum.core.sockets import listen, url_of
from practicum.core.tokens import read_token
from practicum.desktops.computer import Screen
from practicum.desktops.gateway.accounts import Account, Accounts
from practicum.desktops.gateway.app import GatewayApp
from practicum.desktops.gateway.audit import Audit
from practicum.desktops.gateway.client import GatewayClient
from practicum.desktops.gateway.hosts import BridgeHost, Host, PoolHost, RoutedMachine
from practicum.desktops.gateway.machines import AddressedMachine, ServedMachine, network_pid
from practicum.desktops.pool import Pool

BACKLOG = 1024
SHUTDOWN_S = 5.0
KEEP_ALIVE_S = 600.0

OnReady = Callable[[str], None]


def serve(config: GatewayConfig, on_ready: OnReady | None = None) -> None:
    """Serve until told to stop (SIGTERM, SIGINT); `on_ready` gets the URL once it serves."""
    asyncio.run(_serve_until_stopped(config, on_ready or (lambda _: None)))


async def _serve_until_stopped(config: GatewayConfig, on_ready: OnReady) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with running(config) as (url, _):
        on_ready(url)
        await stop.wait()


@asynccontextmanager
async def running(config: GatewayConfig) -> AsyncIterator[tuple[str, GatewayApp]]:
    """Serve in the running event loop; gives the URL and the application."""
    metrics = Metrics()
    accounts = _accounts(config)
    tls = _tls(config.tls) if config.tls else None
    gateway = GatewayApp(
        [_host(host, metrics) for host in config.hosts],
        accounts,
        metrics,
        Audit(config.audit_log),
        ttl_s=config.ttl_s,
        max_wait_s=config.max_wait_s,
        max_waiting=config.max_waiting,
        max_body_bytes=int(config.max_body_mb * 1e6),
    )
    async with serving(gateway, config.host, config.port, tls) as url:
        yield url, gateway


@asynccontextmanager
async def serving(
    gateway: GatewayApp, host: str, port: int, tls: ssl.SSLContext | None = None
) -> AsyncIterator[str]:
    """Serve an application; gives its URL."""
    with listen(host, port) as listener:
        runner = web.AppRunner(
            gateway.build(),
            access_log=None,
            handle_signals=False,
            # A caller that hangs up while it waits in line gives its place to the next.
            handler_cancellation=True,
            shutdown_timeout=SHUTDOWN_S,
            keepalive_timeout=KEEP_ALIVE_S,
        )
        await runner.setup()
        try:
            await web.SockSite(runner, listener, ssl_context=tls, backlog=BACKLOG).start()
            yield url_of(listener, "https" if tls else "http")
        finally:
            await runner.cleanup()


def _accounts(config: GatewayConfig) -> Accounts:
    accounts = [
        Account(token.name, _secret(token), token.max_leases, token.requests_per_s)
        for token in config.tokens
    ]
    if len({account.token for account in accounts}) < len(accounts):
        raise ConfigError("two tokens are the same: each name needs its own")
    return Accounts(accounts)


def _secret(config: SecretConfig) -> str:
    return read_token(env=config.env, file=config.file)


def _tls(config: TlsConfig) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(config.cert, config.key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"cannot use {config.cert} with {config.key}: {error}") from error
    return context


def _host(config: HostConfig, metrics: Metrics) -> Host:
    if isinstance(config, BridgeHostConfig):
        client = GatewayClient(config.url, _secret(config.token), ca_file=config.ca_file)
        return BridgeHost(config.name, client, config.size)
    if isinstance(config, ServersHostConfig):
        number = len(config.addresses)
        return _pool_host(
            config.name, _addressed(config), PoolConfig(size=number, spares=number), metrics
        )
    if config.body == "namespace" and config.ports.numbers() and os.geteuid() != 0:
        raise ConfigError(
            f"host {config.name}: only root can reach ports inside namespaces: run the gateway as "
            "root, or give no ports"
        )
    return _pool_host(config.name, lambda: _local(config), config.pool, metrics)


def _pool_host(
    name: str, make: Callable[[], RoutedMachine], config: PoolConfig, metrics: Metrics
) -> PoolHost:
    # The gateway ends leases itself; the pool must not do so behind its back.
    return PoolHost(Pool(make, config, ttl_s=math.inf, metrics=metrics, name=name))


def _local(config: LocalHostConfig) -> ServedMachine:
    from practicum.desktops.xvfb import DesktopOptions, NamespaceMachine, XvfbMachine

    options = DesktopOptions(Screen(config.width, config.height), config.template)
    ports = config.ports.numbers()
    if config.body == "xvfb":
        return ServedMachine(XvfbMachine(options), ports)
    room = NamespaceMachine(options)
    return ServedMachine(room, ports, lambda: network_pid(room.keeper_pid))


def _addressed(config: ServersHostConfig) -> Callable[[], AddressedMachine]:
    """Make machines out of addresses, each used by one machine at a time."""
    free = list(config.addresses)

    def make() -> AddressedMachine:
        address = free.pop(0)
        authorization = f"Bearer {_secret(address.token)}" if address.token else None
        return AddressedMachine(
            address.host, address.ports.numbers(), authorization, lambda: free.append(address)
        )

    return make
