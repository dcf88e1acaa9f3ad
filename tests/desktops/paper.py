"""A computer on paper: no screen, but real files and commands, and it writes down its inputs."""

from __future__ import annotations

import asyncio
import io
import os
import signal
from collections.abc import Sequence
from pathlib import Path

from PIL import Image as Picture

from practicum.core.errors import MachineError
from practicum.core.message import Image
from practicum.desktops.computer import (
    CommandResult,
    Input,
    Move,
    Node,
    PictureFormat,
    Screen,
    Wait,
    Window,
)

TREE = Node(
    "desktop frame",
    "main",
    children=(
        Node(
            "application",
            "editor",
            children=(
                Node(
                    "push button",
                    "Save <all>",
                    states=frozenset({"showing", "visible", "enabled"}),
                    box=(10, 20, 30, 40),
                    actions=("click",),
                    attributes={"toolkit": "gtk"},
                ),
                Node(
                    "terminal",
                    text="$ ls\nfile\n",
                    states=frozenset({"showing", "focused", "multi-line"}),
                ),
                Node("slider", value=0.5, states=frozenset({"showing"})),
            ),
        ),
    ),
)


class PaperComputer:
    """A `Computer` for tests of what stands in front of one."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.screen = Screen(800, 600)
        self.inputs: list[Input] = []
        self.at = (0, 0)
        self.copied = ""
        self.shown = [
            Window("0x1", "notes.txt - Mousepad", "mousepad.Mousepad", 0, 0, 400, 300, True),
            Window("0x2", "Terminal", "xterm.XTerm", 10, 10, 200, 100),
        ]
        self.activated: list[str] = []
        self.broken: MachineError | None = None
        self.started: list[asyncio.subprocess.Process] = []

    async def screenshot(self, kind: PictureFormat = "png", *, cursor: bool = True) -> Image:
        if self.broken:
            raise self.broken
        colour = (255, 0, 0) if cursor else (0, 0, 255)
        data = io.BytesIO()
        Picture.new("RGB", (self.screen.width, self.screen.height), colour).save(data, kind)
        return Image(data.getvalue(), f"image/{kind}")

    async def settle(self, *, quiet_s: float = 0.15, timeout_s: float = 5.0) -> bool:
        return timeout_s > quiet_s

    async def perform(self, inputs: Sequence[Input]) -> None:
        if self.broken:
            raise self.broken
        for one in inputs:
            if isinstance(one, Move):
                self.at = (one.x, one.y)
            if isinstance(one, Wait):
                await asyncio.sleep(one.seconds)
            self.inputs.append(one)

    async def pointer(self) -> tuple[int, int]:
        return self.at

    async def clipboard(self) -> str:
        return self.copied

    async def set_clipboard(self, text: str) -> None:
        self.copied = text

    async def windows(self) -> Sequence[Window]:
        return self.shown

    async def activate_window(self, window_id: str) -> None:
        self.activated.append(window_id)

    async def close_window(self, window_id: str) -> None:
        self.shown = [window for window in self.shown if window.id != window_id]

    async def accessibility(self) -> Node:
        return TREE

    async def run(
        self,
        command: Sequence[str] | str,
        *,
        timeout_s: float = 120,
        cwd: str | None = None,
        stdin: bytes | None = None,
    ) -> CommandResult:
        process = await self._start(command, cwd)
        try:
            async with asyncio.timeout(timeout_s):
                output, error = await process.communicate(stdin or b"")
        except TimeoutError as late:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            raise MachineError(f"not done within {timeout_s:g} s", kind="timeout") from late
        return CommandResult(process.returncode or 0, output.decode(), error.decode())

    async def launch(self, command: Sequence[str] | str) -> None:
        self.started.append(await self._start(command, None))

    async def _start(
        self, command: Sequence[str] | str, cwd: str | None
    ) -> asyncio.subprocess.Process:
        argv = ["/bin/bash", "-c", command] if isinstance(command, str) else command
        try:
            return await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=self._path(cwd or "~/"),
                env={"HOME": str(self.home), "PATH": os.environ["PATH"]},
                start_new_session=True,
            )
        except OSError as error:
            raise MachineError(f"cannot start {argv[0]}: {error.strerror}", kind="spawn") from error

    async def read_file(self, path: str) -> bytes:
        return self._path(path).read_bytes()

    async def write_file(self, path: str, data: bytes) -> None:
        place = self._path(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)

    def _path(self, path: str) -> Path:
        return self.home / (path[2:] if path.startswith("~/") else path)

    async def stop(self) -> None:
        """End what was launched."""
        for process in self.started:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
            await process.communicate()
