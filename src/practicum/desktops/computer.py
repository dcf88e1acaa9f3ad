"""What an agent, a set-up step or a check can do with a machine that has a screen.

`Computer` is the one protocol; bodies are the local `xvfb` and `namespace` desktops and
`remote`, any OSWorld or Windows Agent Arena server by URL. Coordinates are whole pixels from
the upper left corner. What an action of the model means in these terms is decided above
(`envs/desktop`), as is whether a task is solved.

Whatever cannot be done raises `MachineError` with a `kind`; a wrong argument (a point off the
screen, an unknown key) is a `ValueError`, for callers who pass on what a model asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Literal, Protocol

from practicum.core.message import Image

Button = Literal["left", "middle", "right"]
PictureFormat = Literal["png", "jpeg"]


@dataclass(frozen=True, slots=True)
class Screen:
    """The size of the screen in pixels."""

    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Move:
    """Put the pointer somewhere, at once."""

    x: int
    y: int


@dataclass(frozen=True, slots=True)
class Press:
    """Press or release a pointer button where the pointer is."""

    button: Button = "left"
    is_down: bool = True


@dataclass(frozen=True, slots=True)
class Key:
    """Press or release a key by its pyautogui name, as in `enter`, `ctrl`, `a`, `f5`."""

    name: str
    is_down: bool = True


@dataclass(frozen=True, slots=True)
class Text:
    """Type a text, whatever characters it holds."""

    text: str


@dataclass(frozen=True, slots=True)
class Scroll:
    """Turn the wheel where the pointer is; positive is up and right, as in pyautogui."""

    up: int = 0
    right: int = 0


@dataclass(frozen=True, slots=True)
class Wait:
    """Let time pass between two inputs."""

    seconds: float


Input = Move | Press | Key | Text | Scroll | Wait
"""One thing done with pointer or keyboard; a click is Move, Press, Press(is_down=False)."""


@dataclass(frozen=True, slots=True)
class Window:
    """A window of the window manager."""

    id: str
    title: str
    class_name: str
    """The application's name for it, `instance.Class`, as wmctrl shows it."""
    x: int
    y: int
    width: int
    height: int
    is_active: bool = False


@dataclass(frozen=True, slots=True)
class Node:
    """One element of the accessibility tree."""

    role: str
    """AT-SPI's name of the role, as in `push button`."""
    name: str = ""
    text: str = ""
    value: float | None = None
    states: frozenset[str] = frozenset()
    """AT-SPI's names, as in `showing`, `focused`."""
    box: tuple[int, int, int, int] | None = None
    """x, y, width, height on the screen."""
    actions: tuple[str, ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)
    children: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How a command ended."""

    exit_code: int
    output: str
    error: str


class Computer(Protocol):
    """One machine with a screen. Used by one episode at a time."""

    @property
    def screen(self) -> Screen:
        """Its size."""
        ...

    @property
    def home(self) -> PurePath:
        """The user's home folder on the machine."""
        ...

    async def screenshot(self, kind: PictureFormat = "png", *, cursor: bool = True) -> Image:
        """What the screen shows now."""
        ...

    async def settle(self, *, quiet_s: float = 0.15, timeout_s: float = 5.0) -> bool:
        """Wait until the screen stays the same for a while; False if it never did."""
        ...

    async def perform(self, inputs: Sequence[Input]) -> None:
        """Use pointer and keyboard. Not repeated by anyone when it fails: it may have happened."""
        ...

    async def pointer(self) -> tuple[int, int]:
        """Where the pointer is."""
        ...

    async def clipboard(self) -> str:
        """The text in the clipboard."""
        ...

    async def set_clipboard(self, text: str) -> None:
        """Put a text into the clipboard."""
        ...

    async def windows(self) -> Sequence[Window]:
        """The windows there are, the topmost last."""
        ...

    async def activate_window(self, window_id: str) -> None:
        """Raise a window and give it the keyboard."""
        ...

    async def close_window(self, window_id: str) -> None:
        """Ask a window to close."""
        ...

    async def accessibility(self) -> Node:
        """The tree of what applications show, a `desktop frame` on top."""
        ...

    async def run(
        self,
        command: Sequence[str] | str,
        *,
        timeout_s: float = 120,
        cwd: str | None = None,
        stdin: bytes | None = None,
    ) -> CommandResult:
        """Run a command to its end as the desktop's user; a string goes to a shell.

        Ends when the command does, even if what it started still holds its output.
        """
        ...

    async def launch(self, command: Sequence[str] | str) -> None:
        """Start a program and let it run; one that cannot be started is a `MachineError`."""
        ...

    async def read_file(self, path: str) -> bytes:
        """A file's bytes; none there is a `FileNotFoundError`. `~/` is the home folder."""
        ...

    async def write_file(self, path: str, data: bytes) -> None:
        """Write a file and the folders above it."""
        ...


class Machine(Protocol):
    """A computer and its life, owned by a pool."""

    @property
    def id(self) -> str:
        """A short name that is new for every machine."""
        ...

    @property
    def computer(self) -> Computer:
        """What to act on; a new one after each reset."""
        ...

    async def start(self) -> None:
        """Bring it up; returns when input and screenshots work."""
        ...

    async def reset(self) -> None:
        """Give it back its first state: no process, no file of the last user is left."""
        ...

    async def check(self) -> None:
        """Raise `MachineError` if it does not work any more."""
        ...

    async def stop(self) -> None:
        """Take it down and remove all it left; idempotent."""
        ...
