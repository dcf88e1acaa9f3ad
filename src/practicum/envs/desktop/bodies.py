"""Where the computers of episodes come from."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from practicum.core.errors import unknown_name
from practicum.desktops.computer import Computer, Screen

BODIES = ("xvfb", "namespace", "http://GATEWAY", "https://GATEWAY")


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


def open_desktops(body: str, screen: Screen) -> Desktops:
    """Make the source of computers that a body's name asks for; starts nothing yet."""
    raise unknown_name("body", body, BODIES)
