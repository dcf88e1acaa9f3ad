"""Desktops that run already, by the addresses of their servers: Windows Agent Arena's.

One episode at a time has a server: a lock file on this machine sees to it, whichever process the
episode is in. A server that several machines share belongs behind a gateway.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import random
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

from practicum.core.canonical import content_hash
from practicum.core.errors import ConfigError, MachineError
from practicum.core.leases import now_s
from practicum.desktops.computer import Screen
from practicum.desktops.provider import BUSY
from practicum.desktops.remote import WaaComputer, connect
from practicum.envs.desktop.bodies import Address, Desk

PREFIX = "waa+"
WAIT_S = 1800.0
LOOK_EVERY_S = 0.5
SERVER_PORT = 5000


class WaaServers:
    """Hands out the desktops behind Windows Agent Arena's servers."""

    def __init__(self, urls: Sequence[str], screen: Screen, *, wait_s: float = WAIT_S) -> None:
        for url in urls:
            if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
                raise ConfigError(
                    f"{url!r} is no address of a server: write body="
                    f"{PREFIX}http://HOST:{SERVER_PORT}, and further ones behind commas"
                )
        self._urls = tuple(url.rstrip("/") for url in urls)
        self._wait_s = wait_s
        self.screen = screen

    @asynccontextmanager
    async def lease(self) -> AsyncIterator[Desk]:
        """Wait for a server, tidy its desktop up and keep others off it."""
        async with self._locked() as url:
            computer = await connect(url, kind="waa")
            async with computer:
                assert isinstance(computer, WaaComputer)
                if computer.screen != self.screen:
                    has = computer.screen
                    raise MachineError(
                        f"the desktop of {url} has {has.width}x{has.height} pixels: give the "
                        f"option screen={has.width}x{has.height}",
                        kind="screen",
                    )
                # As far as a reset goes there: it has no snapshot.
                await computer.close_all()
                await computer.clear_task_files()
                yield Desk(computer, lambda: _address(url))

    async def aclose(self) -> None:
        """Release nothing: the servers are not ours."""

    @asynccontextmanager
    async def _locked(self) -> AsyncIterator[str]:
        end_s = now_s() + self._wait_s
        while True:
            # In another order each time: after a fault another desktop is likelier.
            for url in random.sample(self._urls, len(self._urls)):
                lock = _try_lock(url)
                if lock is None:
                    continue
                try:
                    yield url
                finally:
                    os.close(lock)
                return
            if now_s() > end_s:
                raise MachineError(
                    f"none of {len(self._urls)} desktops came free within {self._wait_s:g} s: "
                    "play fewer episodes at once or add servers",
                    kind=BUSY,
                )
            await asyncio.sleep(LOOK_EVERY_S)


def _try_lock(url: str) -> int | None:
    """Take the lock of a server; it is given back when the file, or this process, is closed."""
    path = Path(tempfile.gettempdir()) / f"practicum-desktop-{content_hash(url)[:16]}.lock"
    file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    return file


@asynccontextmanager
async def _address(url: str) -> AsyncIterator[Address]:
    parts = urlsplit(url)
    assert parts.hostname is not None
    yield Address(parts.hostname, parts.port or SERVER_PORT)
