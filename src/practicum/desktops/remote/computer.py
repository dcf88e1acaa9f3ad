"""A computer behind our own server, with all that its body can do."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import Any, Self

from practicum.core.message import Image
from practicum.desktops import wire
from practicum.desktops.computer import (
    CommandResult,
    Input,
    Node,
    PictureFormat,
    Screen,
    Wait,
    Window,
)
from practicum.desktops.remote.calls import CallError, Calls, Reply

ACCESSIBILITY_TIMEOUT_S = 120.0
LAUNCH_TIMEOUT_S = 30.0
FILE_TIMEOUT_S = 600.0
GRACE_S = 15.0
"""What a call may take beyond the time that the thing itself was given."""

_MAGIC = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg"}


class RemoteComputer:
    """A `Computer` by URL. Close it with `aclose`, or use it as a context manager."""

    def __init__(self, calls: Calls, screen: Screen, home: PurePath) -> None:
        self._calls = calls
        self._screen = screen
        self._home = home

    @property
    def screen(self) -> Screen:
        """Its size."""
        return self._screen

    @property
    def home(self) -> PurePath:
        """The user's home folder on the machine."""
        return self._home

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections; the machine goes on."""
        await self._calls.aclose()

    async def screenshot(self, kind: PictureFormat = "png", *, cursor: bool = True) -> Image:
        """What the screen shows now."""
        return self._picture(
            await self._calls.look("GET", f"/screenshot?kind={kind}&cursor={int(cursor)}")
        )

    async def settle(self, *, quiet_s: float = 0.15, timeout_s: float = 5.0) -> bool:
        """Wait until the screen stays the same for a while; False if it never did."""
        body = {"quiet_s": quiet_s, "timeout_s": timeout_s}
        reply = await self._calls.look("POST", "/settle", json=body, timeout_s=timeout_s + GRACE_S)
        return bool(field_of(reply, "settled"))

    async def perform(self, inputs: Sequence[Input]) -> None:
        """Use pointer and keyboard, at most once whatever happens on the way."""
        await self._do("/perform", {"inputs": wire.write_inputs(inputs)}, duration_s(inputs))

    async def pointer(self) -> tuple[int, int]:
        """Where the pointer is."""
        reply = await self._calls.look("GET", "/cursor_position")
        match reply.json():
            case [int() as x, int() as y]:
                return x, y
        raise reply.bad(f"no position: {reply.body[:80]!r}")

    async def clipboard(self) -> str:
        """The text in the clipboard."""
        return str(field_of(await self._calls.look("GET", "/clipboard"), "text"))

    async def set_clipboard(self, text: str) -> None:
        """Put a text into the clipboard."""
        await self._do("/clipboard", {"text": text})

    async def windows(self) -> Sequence[Window]:
        """The windows there are, the topmost last."""
        reply = await self._calls.look("GET", "/windows")
        try:
            return wire.read_windows(field_of(reply, "windows"))
        except ValueError as error:
            raise reply.bad(str(error)) from error

    async def activate_window(self, window_id: str) -> None:
        """Raise a window and give it the keyboard."""
        await self._do("/windows/activate", {"id": window_id})

    async def close_window(self, window_id: str) -> None:
        """Ask a window to close."""
        await self._do("/windows/close", {"id": window_id})

    async def accessibility(self) -> Node:
        """The tree of what applications show, a `desktop frame` on top."""
        reply = await self._calls.look("GET", "/tree", timeout_s=ACCESSIBILITY_TIMEOUT_S)
        return await read_tree(reply, lambda: wire.read_tree(reply.body))

    async def run(
        self,
        command: Sequence[str] | str,
        *,
        timeout_s: float = 120,
        cwd: str | None = None,
        stdin: bytes | None = None,
    ) -> CommandResult:
        """Run a command to its end as the desktop's user; a string goes to a shell."""
        body = {
            "command": command if isinstance(command, str) else list(command),
            "timeout_s": timeout_s,
            "cwd": cwd,
            "stdin": None if stdin is None else base64.b64encode(stdin).decode(),
        }
        reply = await self._do("/run", body, timeout_s)
        return CommandResult(
            int(field_of(reply, "exit_code")),
            str(field_of(reply, "output")),
            str(field_of(reply, "error")),
        )

    async def launch(self, command: Sequence[str] | str) -> None:
        """Start a program and let it run; one that cannot be started is a `MachineError`."""
        is_text = isinstance(command, str)
        body = {"command": command if is_text else list(command), "shell": is_text}
        await self._do("/setup/launch", body, LAUNCH_TIMEOUT_S)

    async def read_file(self, path: str) -> bytes:
        """A file's bytes; none there is a `FileNotFoundError`. `~/` is the home folder."""
        form = {"file_path": self._path(path)}
        return (await self._file("/file", form=form)).body

    async def write_file(self, path: str, data: bytes) -> None:
        """Write a file and the folders above it."""
        # The same file again is the same file, so it may be sent again.
        await self._file("/setup/upload", upload=(self._path(path), data))

    async def _file(self, path: str, **body: Any) -> Reply:
        try:
            return await self._calls.look("POST", path, timeout_s=FILE_TIMEOUT_S, **body)
        except CallError as error:
            if error.status == 404:
                raise FileNotFoundError(str(error)) from error
            if error.kind == "permission":
                raise PermissionError(str(error)) from error
            raise

    async def _do(self, path: str, body: Any, seconds: float = 0.0) -> Reply:
        try:
            return await self._calls.do_once(path, json=body, timeout_s=seconds + GRACE_S)
        except CallError as error:
            if error.status == 400:
                raise ValueError(str(error)) from error
            raise

    def _path(self, path: str) -> str:
        """Where a path is on the machine: under the home folder if nothing else is said."""
        if path == "~" or path.startswith("~/"):
            path = path[2:]
        return str(self._home / path)

    @staticmethod
    def _picture(reply: Reply) -> Image:
        for magic, media_type in _MAGIC.items():
            if reply.body.startswith(magic):
                return Image(reply.body, media_type)
        raise reply.bad(f"no picture: {reply.body[:40]!r}")


def duration_s(inputs: Sequence[Input]) -> float:
    """How long inputs wait."""
    return sum(one.seconds for one in inputs if isinstance(one, Wait))


async def read_tree(reply: Reply, read: Callable[[], Node]) -> Node:
    """Read a tree, which may be large, in a thread."""
    try:
        return await asyncio.to_thread(read)
    except ValueError as error:
        raise reply.bad(str(error)) from error


def field_of(reply: Reply, name: str) -> Any:
    """What an answer must say."""
    value = reply.json()
    if not isinstance(value, dict) or name not in value:
        raise reply.bad(f"there is no {name!r} in {reply.body[:120]!r}")
    return value[name]
