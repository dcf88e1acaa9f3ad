"""A computer that is nothing but a dictionary of files: for what needs no screen."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import PurePosixPath

from practicum.core.errors import MachineError
from practicum.core.message import Image
from practicum.desktops.computer import (
    CommandResult,
    Input,
    Key,
    Node,
    Screen,
    Text,
    Window,
)
from practicum.envs.desktop.bodies import Address, Desk

SHOWING = frozenset({"showing", "visible"})
HOME = "/home/user"


class MemoryComputer:
    """Types into one text field; `enter` saves it as `~/typed.txt`."""

    screen = Screen(1000, 500)
    home = PurePosixPath(HOME)

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.typed = ""
        self.performed: list[Input] = []
        self.launched: list[list[str]] = []
        self.is_broken = False

    def _check(self) -> None:
        if self.is_broken:
            raise MachineError("the X server is gone", kind="lost-display")

    async def screenshot(self, kind: str = "png", *, cursor: bool = True) -> Image:
        self._check()
        return Image(self.typed.encode())

    async def settle(self, *, quiet_s: float = 0.15, timeout_s: float = 5.0) -> bool:
        return True

    async def perform(self, inputs: Sequence[Input]) -> None:
        self._check()
        for one in inputs:
            if isinstance(one, Key) and one.name == "nokey":
                raise ValueError("there is no key 'nokey'")
            self.performed.append(one)
            if isinstance(one, Text):
                self.typed += one.text
            if one == Key("enter"):
                self.files[f"{HOME}/typed.txt"] = self.typed.encode()

    async def pointer(self) -> tuple[int, int]:
        return 0, 0

    async def clipboard(self) -> str:
        return ""

    async def set_clipboard(self, text: str) -> None:
        self.files["clipboard"] = text.encode()

    async def windows(self) -> Sequence[Window]:
        return [Window("1", "Editor", "editor.Editor", 0, 0, 500, 500, is_active=True)]

    async def activate_window(self, window_id: str) -> None:
        pass

    async def close_window(self, window_id: str) -> None:
        pass

    async def accessibility(self) -> Node:
        self._check()
        field = Node(
            "text", "", self.typed, None, SHOWING | {"focused"}, (100, 100, 200, 50), ("activate",)
        )
        save = Node("push button", "Save", states=SHOWING, box=(400, 0, 100, 20))
        hidden = Node("push button", "Hidden", states=frozenset(), box=(0, 0, 10, 10))
        off = Node("push button", "Off", states=SHOWING, box=(2000, 0, 10, 10))
        frame = Node("frame", "Editor", states=SHOWING, box=(0, 0, 500, 500))
        panel = Node("panel", states=SHOWING, children=(field, save, hidden, off))
        return Node("desktop frame", children=(frame, panel))

    async def run(
        self,
        command: Sequence[str] | str,
        *,
        timeout_s: float = 120,
        cwd: str | None = None,
        stdin: bytes | None = None,
    ) -> CommandResult:
        self._check()
        words = command.split() if isinstance(command, str) else list(command)
        if words[0] == "cat":
            data = self.files.get(words[1].replace("~", HOME))
            return CommandResult(0, data.decode(), "") if data else CommandResult(1, "", "none")
        if words[0] == "true":
            return CommandResult(0, "", "")
        if words[0] == "false":
            return CommandResult(1, "", "it is false")
        return CommandResult(127, "", f"{words[0]}: not found")

    async def launch(self, command: Sequence[str] | str) -> None:
        self.launched.append(list(command))

    async def read_file(self, path: str) -> bytes:
        self._check()
        path = path.replace("~", HOME)
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path]

    async def write_file(self, path: str, data: bytes) -> None:
        self.files[path.replace("~", HOME)] = data


def desk_of(computer: MemoryComputer) -> Desk:
    return Desk(computer, _nowhere)


@asynccontextmanager
async def _nowhere() -> AsyncIterator[Address]:
    yield Address("127.0.0.1", 9)


class MemoryDesktops:
    """Hands out a new computer each time."""

    screen = MemoryComputer.screen

    def __init__(self) -> None:
        self.computers: list[MemoryComputer] = []
        self.num_open = 0

    @asynccontextmanager
    async def lease(self) -> AsyncIterator[Desk]:
        self.computers.append(MemoryComputer())
        self.num_open += 1
        try:
            yield desk_of(self.computers[-1])
        finally:
            self.num_open -= 1

    async def aclose(self) -> None:
        pass
