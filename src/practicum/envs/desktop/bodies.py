"""Where the desks of episodes come from: a computer each, and a way to dial it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from practicum.core.errors import ConfigError, MachineError, unknown_name
from practicum.desktops.computer import Computer, Machine, Screen

if TYPE_CHECKING:
    from practicum.desktops.gateway.client import GatewayClient, GatewayLease

BODIES = ("xvfb", "namespace", "http://GATEWAY", "https://GATEWAY", "waa+http://SERVER,…")
TOKEN_VARIABLE = "PRACTICUM_GATEWAY_TOKEN"
"""Where the token for a gateway is read from."""
NO_PORT = 9
"""The discard port: nothing answers there."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a desktop's OSWorld server and its programs can be dialled."""

    host: str
    server_port: int
    chromium_port: int = 9222
    vlc_port: int = 8080


@dataclass(frozen=True, slots=True)
class Desk:
    """What one episode is given."""

    computer: Computer
    reach: Callable[[], AbstractAsyncContextManager[Address]]
    """Opens ports on this machine for OSWorld's evaluators, which know only `host:port`."""


class Desktops(Protocol):
    """Hands out desks, one per episode."""

    @property
    def screen(self) -> Screen:
        """The size all their screens have."""
        ...

    def lease(self) -> AbstractAsyncContextManager[Desk]:
        """A desk in its first state, for as long as the context lasts."""
        ...

    async def aclose(self) -> None:
        """Give up all of them; idempotent."""
        ...


class FreshMachines:
    """A new machine for every episode: where one is up in less than a second, nothing is kept."""

    def __init__(self, make: Callable[[], Machine], screen: Screen) -> None:
        self._make = make
        self.screen = screen

    @asynccontextmanager
    async def lease(self) -> AsyncIterator[Desk]:
        """Start a machine, and stop it whatever happens."""
        machine = self._make()
        try:
            await machine.start()
            computer = machine.computer
            yield Desk(computer, lambda: _served(computer))
        finally:
            await machine.stop()

    async def aclose(self) -> None:
        """Release nothing: machines end with their episodes."""


class GatewayDesktops:
    """Desktops leased from a gateway."""

    def __init__(self, client: GatewayClient, screen: Screen) -> None:
        self._client = client
        self.screen = screen

    @asynccontextmanager
    async def lease(self) -> AsyncIterator[Desk]:
        """Wait for a desktop and keep it while it is used."""
        async with self._client.lease() as lease:
            has = lease.computer.screen
            if has != self.screen:
                raise MachineError(
                    f"the gateway's desktop has {has.width}x{has.height} pixels: give the option "
                    f"screen={has.width}x{has.height}",
                    kind="screen",
                )
            yield Desk(lease.computer, lambda: _forwarded(lease))

    async def aclose(self) -> None:
        """Give back what is held."""
        await self._client.aclose()


@asynccontextmanager
async def _served(computer: Computer) -> AsyncIterator[Address]:
    from practicum.desktops.server import Terms, running

    # Open, because OSWorld's getters know no token; and on loopback, while a task is graded.
    async with running(lambda: computer, Terms(is_open=True)) as address:
        url = urlsplit(address.url)
        assert url.hostname is not None and url.port is not None
        yield Address(url.hostname, url.port)


@asynccontextmanager
async def _forwarded(lease: GatewayLease) -> AsyncIterator[Address]:
    from practicum.desktops.gateway.forward import LOCAL, forwarded

    async with forwarded(lease.doors) as ports:
        chromium, vlc = ports.get("chromium", NO_PORT), ports.get("vlc", NO_PORT)
        yield Address(LOCAL, ports["server"], chromium, vlc)


def open_desktops(body: str, screen: Screen, ca_file: Path | None) -> Desktops:
    """Make the source of desktops that a body's name asks for; starts nothing yet."""
    try:
        if body.startswith(("http://", "https://")):
            return _gateway(body, screen, ca_file)
        if body.startswith("waa+"):
            from practicum.envs.desktop.servers import PREFIX, WaaServers

            if ca_file is not None:
                raise ConfigError("ca_file is for a gateway's certificate, and body is no gateway")
            return WaaServers(body.removeprefix(PREFIX).split(","), screen)
        if body not in BODIES[:2]:
            raise unknown_name("body", body, BODIES)
        if ca_file is not None:
            raise ConfigError("ca_file is for a gateway's certificate, and body is no gateway")
        from practicum.desktops.xvfb import DesktopOptions, NamespaceMachine, XvfbMachine
    except ImportError as error:
        raise ConfigError(
            f"desktops need {error.name}: pip install 'practicum[desktop]'"
        ) from error
    options = DesktopOptions(screen=screen)
    kind = XvfbMachine if body == "xvfb" else NamespaceMachine
    return FreshMachines(lambda: kind(options), screen)


def _gateway(url: str, screen: Screen, ca_file: Path | None) -> Desktops:
    from practicum.desktops.gateway.client import GatewayClient

    token = os.environ.get(TOKEN_VARIABLE)
    if not token:
        raise ConfigError(f"the gateway {url} wants a token: put it into {TOKEN_VARIABLE}")
    return GatewayDesktops(GatewayClient(url, token, ca_file=ca_file), screen)
