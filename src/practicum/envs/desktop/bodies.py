"""Where the computers of episodes come from."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from practicum.core.errors import ConfigError, unknown_name
from practicum.desktops.computer import Computer, Machine, Screen

BODIES = ("xvfb",)


class Desktops(Protocol):
    """Hands out computers, one per episode."""

    @property
    def screen(self) -> Screen:
        """The size all of them have."""
        ...

    def lease(self) -> AbstractAsyncContextManager[Computer]:
        """A computer in its first state, for as long as the context lasts."""
        ...

    async def aclose(self) -> None:
        """Take all of them down; idempotent."""
        ...


class FreshMachines:
    """A new machine for every episode: where one is up in less than a second, nothing is kept."""

    def __init__(self, make: Callable[[], Machine], screen: Screen) -> None:
        self._make = make
        self.screen = screen

    @asynccontextmanager
    async def lease(self) -> AsyncIterator[Computer]:
        """Start a machine, and stop it whatever happens."""
        machine = self._make()
        try:
            await machine.start()
            yield machine.computer
        finally:
            await machine.stop()

    async def aclose(self) -> None:
        """Release nothing: machines end with their episodes."""


def open_desktops(body: str, screen: Screen) -> Desktops:
    """Make the source of computers that a body's name asks for; starts nothing yet."""
    if body not in BODIES:
        raise unknown_name("body", body, BODIES)
    try:
        from practicum.desktops.xvfb import DesktopOptions, XvfbMachine
    except ImportError as error:
        raise ConfigError(
            f"desktops need {error.name}: pip install 'practicum[desktop]'"
        ) from error
    options = DesktopOptions(screen=screen)
    return FreshMachines(lambda: XvfbMachine(options), screen)
