"""Routes for windows: opening a file, activating and closing a window by its title."""

from __future__ import annotations

import asyncio
import posixpath

from aiohttp import web

from practicum.desktops.computer import Window
from practicum.desktops.server.desk import Desk, body_of, complain, flag_in, text_in
from practicum.desktops.server.stand_ins import StandIns

LOOK_EVERY_S = 0.1


class WindowRoutes:
    """`/setup/open_file`, `/setup/activate_window`, `/setup/close_window`."""

    def __init__(self, desk: Desk, stand_ins: StandIns) -> None:
        self._desk = desk
        self._stand_ins = stand_ins

    def routes(self) -> list[web.RouteDef]:
        """The routes."""
        return [
            web.post("/setup/open_file", self._open_file),
            web.post("/setup/activate_window", self._activate),
            web.post("/setup/close_window", self._close),
        ]

    async def _activate(self, request: web.Request) -> web.Response:
        window = await self._find(request)
        if isinstance(window, web.Response):
            return window
        await self._desk.computer.activate_window(window.id)
        return web.Response(text="Window activated successfully")

    async def _close(self, request: web.Request) -> web.Response:
        window = await self._find(request)
        if isinstance(window, web.Response):
            return window
        await self._desk.computer.close_window(window.id)
        return web.Response(text="Window closed successfully.")

    async def _find(self, request: web.Request) -> Window | web.Response:
        """Find a window as wmctrl does: `strict` is the whole name, otherwise a part of it."""
        body = await body_of(request)
        name = text_in(body, "window_name")
        strict, by_class = flag_in(body, "strict"), flag_in(body, "by_class")
        windows = await self._desk.computer.windows()
        other = None if strict or by_class else await self._stand_ins.window(name)
        for wanted in (name, other):
            for window in windows if wanted else ():
                own = window.class_name if by_class else window.title
                if own == wanted if strict else str(wanted).lower() in own.lower():
                    return window
        titles = ", ".join(repr(window.title) for window in windows) or "none"
        return complain(f"there is no window {name!r}; there are: {titles}", 404)

    async def _open_file(self, request: web.Request) -> web.Response:
        """Open a file and wait for its window; what is no file is a program to start."""
        path = self._desk.expand(text_in(await body_of(request), "path"))
        computer = self._desk.computer
        is_file = (await computer.run(["test", "-e", path], timeout_s=10)).exit_code == 0
        if not is_file:
            await computer.launch(path)
            return web.Response(text=f"{path} launched successfully")
        await computer.launch(["xdg-open", path])
        name = posixpath.basename(path.rstrip("/"))
        stem = posixpath.splitext(name)[0]
        timeout_s = self._desk.terms.open_timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    for window in await computer.windows():
                        if name in window.title or (stem and stem in window.title):
                            await computer.activate_window(window.id)
                            return web.Response(
                                text="File opened and window activated successfully"
                            )
                    await asyncio.sleep(LOOK_EVERY_S)
        except TimeoutError:
            return complain(f"no window of {name} within {timeout_s:g} s", 500, kind="timeout")
