"""Routes that OSWorld has not, for our own client: all of a `Computer`, with nothing lost."""

from __future__ import annotations

import asyncio
import base64
import binascii
from importlib.metadata import PackageNotFoundError, version

from aiohttp import web

from practicum.desktops import gestures, wire
from practicum.desktops.computer import Wait
from practicum.desktops.server.desk import (
    BadRequestError,
    Desk,
    answer,
    body_of,
    seconds_in,
    text_in,
)
from practicum.desktops.server.screen import PLATFORM

IDENTITY = "/practicum"
LONGEST_S = 3600.0


class NativeRoutes:
    """Who we are, and what else can be done."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def routes(self) -> list[web.RouteDef]:
        """The routes."""
        return [
            web.get(IDENTITY, self._identity),
            web.post("/perform", self._perform),
            web.post("/settle", self._settle),
            web.get("/clipboard", self._clipboard),
            web.post("/clipboard", self._set_clipboard),
            web.get("/tree", self._tree),
            web.get("/windows", self._windows),
            web.post("/windows/activate", self._activate),
            web.post("/windows/close", self._close),
            web.post("/run", self._run),
        ]

    async def _identity(self, _: web.Request) -> web.Response:
        computer = self._desk.computer
        try:
            ours = version("practicum")
        except PackageNotFoundError:
            ours = "unknown"
        return answer(
            {
                "server": "practicum",
                "version": ours,
                "platform": PLATFORM,
                "home": str(computer.home),
                "screen": [computer.screen.width, computer.screen.height],
            }
        )

    async def _perform(self, request: web.Request) -> web.Response:
        inputs = wire.read_inputs((await body_of(request)).get("inputs"))
        if len(inputs) > gestures.MAX_INPUTS:
            raise BadRequestError(f"more than {gestures.MAX_INPUTS} inputs", 413)
        if sum(one.seconds for one in inputs if isinstance(one, Wait)) > gestures.MAX_WAIT_S:
            raise BadRequestError(f"more than {gestures.MAX_WAIT_S:g} s of waiting")
        async with self._desk.hand:
            await self._desk.computer.perform(inputs)
        return answer({"status": "success"})

    async def _settle(self, request: web.Request) -> web.Response:
        body = await body_of(request)
        is_settled = await self._desk.computer.settle(
            quiet_s=seconds_in(body, "quiet_s", 0.15, 60),
            timeout_s=seconds_in(body, "timeout_s", 5, 60),
        )
        return answer({"settled": is_settled})

    async def _clipboard(self, _: web.Request) -> web.Response:
        return answer({"text": await self._desk.computer.clipboard()})

    async def _set_clipboard(self, request: web.Request) -> web.Response:
        text = (await body_of(request)).get("text")
        if not isinstance(text, str):
            raise BadRequestError("'text' is required, and a text")
        await self._desk.computer.set_clipboard(text)
        return answer({"status": "success"})

    async def _tree(self, _: web.Request) -> web.Response:
        tree = await self._desk.computer.accessibility()
        body = await asyncio.to_thread(wire.write_tree, tree)
        return web.Response(body=body, content_type="application/json")

    async def _windows(self, _: web.Request) -> web.Response:
        return answer({"windows": wire.write_windows(await self._desk.computer.windows())})

    async def _activate(self, request: web.Request) -> web.Response:
        await self._desk.computer.activate_window(text_in(await body_of(request), "id"))
        return answer({"status": "success"})

    async def _close(self, request: web.Request) -> web.Response:
        await self._desk.computer.close_window(text_in(await body_of(request), "id"))
        return answer({"status": "success"})

    async def _run(self, request: web.Request) -> web.Response:
        body = await body_of(request)
        command, stdin, folder = body.get("command"), body.get("stdin"), body.get("cwd")
        is_list = isinstance(command, list) and all(isinstance(part, str) for part in command)
        if not command or not (isinstance(command, str) or is_list):
            raise BadRequestError("'command' is a text for a shell or a list of texts")
        if folder is not None and not isinstance(folder, str):
            raise BadRequestError("'cwd' is a path")
        try:
            data = None if stdin is None else base64.b64decode(stdin, validate=True)
        except (TypeError, binascii.Error) as error:
            raise BadRequestError("'stdin' is base64") from error
        done = await self._desk.computer.run(
            command,
            timeout_s=seconds_in(body, "timeout_s", 120, LONGEST_S),
            cwd=folder,
            stdin=data,
        )
        return answer({"exit_code": done.exit_code, "output": done.output, "error": done.error})
