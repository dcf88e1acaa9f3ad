"""The computer inside a local desktop: input and pictures in-process, commands as its user."""

from __future__ import annotations

import asyncio
import math
import posixpath
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import ParamSpec, TypeVar

import numpy as np

from practicum.core.errors import MachineError
from practicum.core.message import Image
from practicum.desktops import frames, keys
from practicum.desktops.atspi import Accessibility
from practicum.desktops.busy import is_busy
from practicum.desktops.computer import (
    CommandResult,
    Input,
    Key,
    Move,
    Node,
    PictureFormat,
    Screen,
    Text,
    Wait,
    Window,
)
from practicum.desktops.frames import Framebuffer
from practicum.desktops.processes import Processes, text_of
from practicum.desktops.x11 import XClient, XError, XInput

X_TIMEOUT_S = 10.0
"""An X server that does not answer for so long is broken."""
MAX_FILE_BYTES = 1 << 30
_FILE_TIMEOUT_S = 60.0
_CLIPBOARD_TIMEOUT_S = 5.0
_LAUNCH_GRACE_S = 0.1
_LOOK_EVERY_S = 0.03
_PIECE = 80  # fewer characters than there are spare keys
_NOT_FOUND, _NOT_PERMITTED = 127, 126  # a shell's exit codes

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What programs on the desktop find around them."""

    home: PurePosixPath
    env: Mapping[str, str]


class XThread:
    """Makes calls to the X server in a thread of its own, with a time limit."""

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._is_closed = False

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Make one call; an X server that is gone or silent is a `MachineError`."""
        if self._is_closed:
            raise MachineError("the desktop is down, or was reset", kind="down")
        job = self._thread.submit(function, *args, **kwargs)
        try:
            async with asyncio.timeout(X_TIMEOUT_S):
                return await asyncio.wrap_future(job)
        except TimeoutError as error:
            raise MachineError(
                f"the X server did not answer within {X_TIMEOUT_S:g} s", kind="timeout"
            ) from error
        except XError as error:
            raise MachineError(
                f"the X server is gone: {type(error).__name__} {error}".rstrip(), kind="display"
            ) from error

    def close(self, *last: Callable[[], None]) -> None:
        """Take no more calls but these, which come after all others."""
        self._is_closed = True
        for function in last:
            self._thread.submit(function)
        self._thread.shutdown(wait=False)


class LocalComputer:
    """A `Computer` whose X server, files and processes are on this machine."""

    def __init__(
        self,
        processes: Processes,
        surroundings: Surroundings,
        x: XClient,
        x_thread: XThread,
        framebuffer: Framebuffer,
        accessibility: Accessibility,
    ) -> None:
        self._processes = processes
        self._around = surroundings
        self._x = x
        self._thread = x_thread
        self._framebuffer = framebuffer
        self._accessibility = accessibility

    @property
    def screen(self) -> Screen:
        """Its size."""
        return self._x.screen

    @property
    def home(self) -> PurePosixPath:
        """The user's home folder on the machine."""
        return self._around.home

    async def screenshot(self, kind: PictureFormat = "png", *, cursor: bool = True) -> Image:
        """What the screen shows now."""
        frame = await self.frame(cursor=cursor)
        return await asyncio.to_thread(frames.encode, frame, kind)

    async def frame(self, *, cursor: bool = True) -> frames.Frame:
        """What the screen shows now, as numbers."""
        frame, drawn = await self._thread.call(self._look, cursor)
        if drawn is not None:
            frames.draw(frame, drawn)
        return frame

    def _look(self, cursor: bool) -> tuple[frames.Frame, frames.Cursor | None]:
        self._x.sync()  # a dead server's last picture is no picture
        return self._framebuffer.read(), self._x.cursor() if cursor else None

    async def settle(self, *, quiet_s: float = 0.15, timeout_s: float = 5.0) -> bool:
        """Wait until the screen stays the same and programs rest for a while; False if never."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + timeout_s
        # Counted in looks: on a busy machine much time can pass without one.
        num_wanted, num_same = max(1, math.ceil(quiet_s / _LOOK_EVERY_S)), 0
        drawings = await self._thread.call(self._x.count_drawings)
        last = await self.frame(cursor=False)
        while num_same < num_wanted:
            if loop.time() > end_s:
                return False
            await asyncio.sleep(_LOOK_EVERY_S)
            is_working = await asyncio.to_thread(is_busy, self._processes.keeper_pid)
            num_same = 0 if is_working else num_same + 1
            count = await self._thread.call(self._x.count_drawings)
            if count != drawings:
                # Much is drawn again as it was; only the pictures tell.
                drawings, now = count, await self.frame(cursor=False)
                if not await self._thread.call(np.array_equal, last, now):
                    last, num_same = now, 0
        return True

    async def perform(self, inputs: Sequence[Input]) -> None:
        """Use pointer and keyboard. Not repeated by anyone when it fails: it may have happened."""
        for item in inputs:
            self._check(item)
        ready: list[XInput] = []
        for item in _pieces(inputs):
            if isinstance(item, Wait | Text):
                await self._thread.call(self._x.perform, ready)
                ready = []
            if isinstance(item, Wait):
                await asyncio.sleep(item.seconds)
            else:
                ready.append(item)
        if ready:
            await self._thread.call(self._x.perform, ready)

    def _check(self, item: Input) -> None:
        """Refuse what cannot be done before any of it is done."""
        match item:
            case Move(x, y):
                if not (0 <= x < self.screen.width and 0 <= y < self.screen.height):
                    raise ValueError(
                        f"the point ({x}, {y}) is off the screen, which is "
                        f"{self.screen.width} x {self.screen.height}"
                    )
            case Key(name):
                keys.keysym_of(name)
            case Text(text):
                for character in text:
                    keys.keysym_of_character(character)
            case Wait(seconds):
                if not 0 <= seconds < float("inf"):
                    raise ValueError(f"cannot wait {seconds} s")
            case _:
                return

    async def pointer(self) -> tuple[int, int]:
        """Where the pointer is."""
        return await self._thread.call(self._x.pointer)

    async def clipboard(self) -> str:
        """The text in the clipboard."""
        result = await self.run(
            ["xclip", "-selection", "clipboard", "-t", "UTF8_STRING", "-o"],
            timeout_s=_CLIPBOARD_TIMEOUT_S,
        )
        return result.output if result.exit_code == 0 else ""  # it fails when there is no text

    async def set_clipboard(self, text: str) -> None:
        """Put a text into the clipboard."""
        before = await self._thread.call(self._x.clipboard_owner)
        result = await self.run(
            ["xclip", "-selection", "clipboard", "-t", "UTF8_STRING", "-i"],
            timeout_s=_CLIPBOARD_TIMEOUT_S,
            stdin=text.encode(),
        )
        if result.exit_code != 0:
            raise MachineError(f"xclip failed: {result.error.strip()}", kind="clipboard")
        # What stays behind to serve the text may ask for the clipboard only after xclip has ended.
        end_s = time.monotonic() + _CLIPBOARD_TIMEOUT_S
        while await self._thread.call(self._x.clipboard_owner) in (before, 0):
            if time.monotonic() > end_s:
                raise MachineError("xclip never took the clipboard", kind="clipboard")
            await asyncio.sleep(0.005)

    async def windows(self) -> Sequence[Window]:
        """The windows there are, the topmost last."""
        return await self._thread.call(self._x.windows)

    async def activate_window(self, window_id: str) -> None:
        """Raise a window and give it the keyboard."""
        await self._thread.call(self._x.activate, window_id)

    async def close_window(self, window_id: str) -> None:
        """Ask a window to close."""
        await self._thread.call(self._x.close_window, window_id)

    async def accessibility(self) -> Node:
        """The tree of what applications show, a `desktop frame` on top."""
        return await self._accessibility.tree()

    async def run(
        self,
        command: Sequence[str] | str,
        *,
        timeout_s: float = 120,
        cwd: str | None = None,
        stdin: bytes | None = None,
    ) -> CommandResult:
        """Run a command to its end as the desktop's user; a string goes to a shell."""
        return text_of(
            await self._processes.run(
                _argv(command),
                env=self._around.env,
                cwd=self._path(cwd or "~"),
                timeout_s=timeout_s,
                stdin=stdin,
            )
        )

    async def launch(self, command: Sequence[str] | str) -> None:
        """Start a program and let it run; one that cannot be started is a `MachineError`."""
        program = await self._processes.spawn(
            _argv(command), env=self._around.env, cwd=str(self.home)
        )
        if not isinstance(command, str):
            return
        # The shell always starts; it says by its exit code that the program did not.
        done, _ = await asyncio.wait([program.ended], timeout=_LAUNCH_GRACE_S)
        if done and program.ended.result() in (_NOT_FOUND, _NOT_PERMITTED):
            raise MachineError(f"cannot start: {command}", kind="spawn")

    async def read_file(self, path: str) -> bytes:
        """A file's bytes; none there is a `FileNotFoundError`. `~/` is the home folder."""
        place = self._path(path)
        exit_code, data, error = await self._processes.run(
            ["cat", "--", place],
            env=self._around.env,
            cwd="/",
            timeout_s=_FILE_TIMEOUT_S,
            max_bytes=MAX_FILE_BYTES,
        )
        if exit_code != 0:
            raise _file_error(place, error)
        return data

    async def write_file(self, path: str, data: bytes) -> None:
        """Write a file and the folders above it."""
        place = self._path(path)
        exit_code, _, error = await self._processes.run(
            ["sh", "-c", 'mkdir -p -- "$1" && cat > "$2"', "sh", posixpath.dirname(place), place],
            env=self._around.env,
            cwd="/",
            timeout_s=_FILE_TIMEOUT_S,
            stdin=data,
        )
        if exit_code != 0:
            raise _file_error(place, error)

    def _path(self, path: str) -> str:
        if "\0" in path:
            raise ValueError("a path cannot hold a zero byte")
        if path == "~" or path.startswith("~/"):
            return str(self.home) + path[1:]
        return posixpath.join(str(self.home), path)


def _pieces(inputs: Sequence[Input]) -> Iterator[Input]:
    """The same inputs, with long texts in pieces: each call to the X server has a time limit."""
    for item in inputs:
        if isinstance(item, Text):
            for start in range(0, len(item.text), _PIECE):
                yield Text(item.text[start : start + _PIECE])
        else:
            yield item


def _argv(command: Sequence[str] | str) -> list[str]:
    if isinstance(command, str):
        return ["/bin/bash", "-c", command]
    if not command:
        raise ValueError("the command is empty")
    return list(command)


def _file_error(path: str, error: bytes) -> OSError:
    said = error.decode(errors="replace").strip()
    if "No such file" in said:
        return FileNotFoundError(f"there is no file {path}")
    if "Permission denied" in said:
        return PermissionError(f"the desktop's user may not touch {path}")
    if "Is a directory" in said:
        return IsADirectoryError(f"{path} is a folder")
    return OSError(said or f"cannot touch {path}")
