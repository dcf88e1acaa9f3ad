"""What tests of desktops share."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support import require, require_program

from practicum.desktops.computer import Computer, Move, Press, Screen, Window

INSTALL = "tools/setup dev (as root), or the line of `practicum doctor desktop`"
SMALL = Screen(1024, 768)


def require_desktop(*programs: str) -> None:
    """Skip a user's run when a program on desktops is missing; in CI that is a failure."""
    for module in ("xcffib", "dbus_fast", "PIL"):
        require(module, "pip install 'practicum[desktop]'")
    for program in ("Xvfb", "openbox", "dbus-daemon", "xclip", *programs):
        require_program(program, INSTALL)


@asynccontextmanager
async def desktop(screen: Screen = SMALL, **options: Any) -> AsyncIterator[Any]:
    """A desktop that is taken down in the end."""
    from practicum.desktops.xvfb import DesktopOptions, XvfbMachine

    machine = XvfbMachine(DesktopOptions(screen=screen, **options))
    await machine.start()
    try:
        yield machine
    finally:
        await machine.stop()


async def until(is_so: Callable[[], Any], limit_s: float = 20) -> Any:
    """Wait for something to become true; give back what it is."""
    async with asyncio.timeout(limit_s):
        while not (value := await is_so()):
            await asyncio.sleep(0.02)
    return value


async def window_of(computer: Computer, class_name: str, limit_s: float = 30) -> Window:
    """Wait for an application's window."""

    async def look() -> Window | None:
        found = [w for w in await computer.windows() if class_name in w.class_name]
        return found[-1] if found else None

    window = await until(look, limit_s)
    assert isinstance(window, Window)
    return window


def click(x: int, y: int) -> list[Any]:
    return [Move(x, y), Press(), Press(is_down=False)]


as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can change users")
