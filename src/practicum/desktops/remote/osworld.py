"""A computer behind OSWorld's own server: what that has no route for goes through commands."""

from __future__ import annotations

import asyncio
import base64
import io
import re
from collections.abc import Sequence
from typing import Any

from practicum.core.errors import MachineError
from practicum.core.message import Image
from practicum.desktops import tree_xml
from practicum.desktops.computer import CommandResult, Input, Move, Node, PictureFormat, Window
from practicum.desktops.remote import code
from practicum.desktops.remote.calls import CallError, Reply
from practicum.desktops.remote.computer import (
    GRACE_S,
    RemoteComputer,
    duration_s,
    field_of,
    read_tree,
)

MAX_COMMAND_S = 120.0
"""The server ends a command after that."""
MAX_STDIN_BYTES = 60_000
"""It travels in an argument."""
LOOK_EVERY_S = 0.1

_TIMED_OUT = 124
_WINDOWS = "wmctrl -lGx && xprop -root _NET_ACTIVE_WINDOW _NET_CLIENT_LIST_STACKING"
_WINDOW = re.compile(
    r"(0x[0-9a-f]+) +-?\d+ +(-?\d+) +(-?\d+) +(\d+) +(\d+) +(N/A|\S.*?\.\S+) +\S+ (.*)"
)
"""Number, desk, place, size, class (in which there may be spaces), host, title."""


class OsworldComputer(RemoteComputer):
    """A `Computer` over the routes that OSWorld's server has.

    It knows no request ids, so an action is sent once and a broken connection is a fault. An
    action that fails there is one too: the server answers 200, and the exit code tells.
    """

    less_than_is_greater = True
    tree_path = "/accessibility"
    accessibility_timeout_s = 120.0

    async def screenshot(self, kind: PictureFormat = "png", *, cursor: bool = True) -> Image:
        """What the screen shows now; always with the pointer."""
        if not cursor:
            raise MachineError(
                "OSWorld's server draws the pointer into every picture", kind="unsupported"
            )
        picture = self._picture(await self._calls.look("GET", "/screenshot"))
        if picture.media_type == f"image/{kind}":
            return picture
        return await asyncio.to_thread(_convert, picture, kind)

    async def settle(self, *, quiet_s: float = 0.15, timeout_s: float = 5.0) -> bool:
        """Wait until the screen stays the same for a while; False if it never did."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + timeout_s
        last, since_s = await self.screenshot(), loop.time()
        while loop.time() - since_s < quiet_s:
            if loop.time() > end_s:
                return False
            await asyncio.sleep(LOOK_EVERY_S)
            now = await self.screenshot()
            if now.data != last.data:
                last, since_s = now, loop.time()
        return True

    async def perform(self, inputs: Sequence[Input]) -> None:
        """Use pointer and keyboard. Not repeated by anyone when it fails: it may have happened."""
        for one in inputs:
            self._check(one)
        if not inputs:
            return
        text = code.write(inputs, less_than_is_greater=self.less_than_is_greater)
        seconds = duration_s(inputs) + len(inputs) * code.PAUSE_S + 30
        done = await self._execute(["python", "-c", text], seconds)
        if done.exit_code != 0:
            raise MachineError(f"an action failed: {done.error.strip()[-300:]}", kind="action")

    async def accessibility(self) -> Node:
        """The tree of what applications show, a `desktop frame` on top."""
        reply = await self._calls.look(
            "GET", self.tree_path, timeout_s=self.accessibility_timeout_s
        )
        return await read_tree(reply, lambda: tree_xml.read(str(field_of(reply, "AT"))))

    async def clipboard(self) -> str:
        """The text in the clipboard."""
        done = await self.run(["xclip", "-selection", "clipboard", "-o"], timeout_s=10)
        return done.output if done.exit_code == 0 else ""  # it fails when there is no text

    async def set_clipboard(self, text: str) -> None:
        """Put a text into the clipboard."""
        # xclip stays to serve the text; OSWorld's server waits for whoever holds its output.
        done = await self.run(
            ["sh", "-c", "xclip -selection clipboard -i >/dev/null 2>&1"],
            timeout_s=10,
            stdin=text.encode(),
        )
        self._expect(done, "xclip")

    async def windows(self) -> Sequence[Window]:
        """The windows there are, the topmost last."""
        done = await self.run(_WINDOWS, timeout_s=10)
        self._expect(done, "wmctrl and xprop")
        return read_windows(done.output)

    async def activate_window(self, window_id: str) -> None:
        """Raise a window and give it the keyboard."""
        self._expect(await self.run(["wmctrl", "-ia", window_id], timeout_s=10), "wmctrl")

    async def close_window(self, window_id: str) -> None:
        """Ask a window to close."""
        self._expect(await self.run(["wmctrl", "-ic", window_id], timeout_s=10), "wmctrl")

    async def run(
        self,
        command: Sequence[str] | str,
        *,
        timeout_s: float = 120,
        cwd: str | None = None,
        stdin: bytes | None = None,
    ) -> CommandResult:
        """Run a command to its end; a string goes to a shell.

        The server waits for all who hold the command's output: start what stays with `launch`.
        """
        if timeout_s > MAX_COMMAND_S:
            raise MachineError(
                f"OSWorld's server ends commands after {MAX_COMMAND_S:g} s, and {timeout_s:g} s "
                "are asked for",
                kind="unsupported",
            )
        argv = ["bash", "-c", command] if isinstance(command, str) else list(command)
        if stdin is not None:
            if len(stdin) > MAX_STDIN_BYTES:
                raise MachineError(
                    f"OSWorld's server takes {MAX_STDIN_BYTES} bytes of input for a command, and "
                    f"there are {len(stdin)}: write a file",
                    kind="unsupported",
                )
            data = base64.b64encode(stdin).decode()
            argv = ["sh", "-c", 'd=$1; shift; printf %s "$d" | base64 -d | "$@"', "sh", data, *argv]
        if cwd is not None:
            argv = ["sh", "-c", 'cd -- "$1" && shift && exec "$@"', "sh", self._path(cwd), *argv]
        argv = ["timeout", "-k", "1", f"{timeout_s:g}", *argv]
        done = await self._execute(argv, timeout_s + GRACE_S)
        if done.exit_code == _TIMED_OUT:
            raise MachineError(
                f"{argv[-1][:80]} did not end within {timeout_s:g} s", kind="timeout"
            )
        return done

    async def launch(self, command: Sequence[str] | str) -> None:
        """Start a program and let it run; whether it did is not known to OSWorld's server."""
        is_text = isinstance(command, str)
        body = {"command": command if is_text else list(command), "shell": is_text}
        await self._calls.do("/setup/launch", json=body)

    def _check(self, one: Input) -> None:
        if isinstance(one, Move) and not (
            0 <= one.x < self.screen.width and 0 <= one.y < self.screen.height
        ):
            raise ValueError(
                f"the point ({one.x}, {one.y}) is off the screen, which is "
                f"{self.screen.width} x {self.screen.height}"
            )

    async def _execute(self, command: list[str] | str, seconds: float) -> CommandResult:
        is_text = isinstance(command, str)
        reply = await self._calls.do(
            "/execute", json={"command": command, "shell": is_text}, timeout_s=seconds
        )
        return _result(reply)

    @staticmethod
    def _expect(done: CommandResult, what: str) -> None:
        if done.exit_code != 0:
            raise MachineError(
                f"{what} failed there: {(done.error or done.output).strip()[-200:]}", kind="command"
            )


def _result(reply: Reply) -> CommandResult:
    status: Any = field_of(reply, "status")
    if status != "success":
        raise CallError(f"{reply.what}: {reply.body[:200]!r}", kind="server-error")
    return CommandResult(
        int(field_of(reply, "returncode")),
        str(field_of(reply, "output")),
        str(field_of(reply, "error")),
    )


def read_windows(text: str) -> list[Window]:
    """Read what wmctrl and xprop say of the windows."""
    listed, properties = [], {}
    for line in text.splitlines():
        if line.startswith("_NET_"):
            name = line.partition("(")[0]
            properties[name] = [int(one, 16) for one in re.findall(r"0x[0-9a-f]+", line)]
        elif found := _WINDOW.match(line):
            listed.append(found.groups())
    stacked = properties.get("_NET_CLIENT_LIST_STACKING", [])
    active = properties.get("_NET_ACTIVE_WINDOW", [])
    order = {number: place for place, number in enumerate(stacked)}
    listed.sort(key=lambda fields: order.get(int(fields[0], 16), -1))
    return [
        Window(
            number,
            title,
            class_name,
            int(x),
            int(y),
            int(width),
            int(height),
            int(number, 16) in active,
        )
        for number, x, y, width, height, class_name, title in listed
    ]


def _convert(picture: Image, kind: PictureFormat) -> Image:
    try:
        from PIL import Image as Picture
    except ImportError as error:
        raise MachineError(
            "a picture as JPEG needs pillow: pip install 'practicum[desktop]'", kind="missing"
        ) from error
    data = io.BytesIO()
    Picture.open(io.BytesIO(picture.data)).convert("RGB").save(data, kind)
    return Image(data.getvalue(), f"image/{kind}")
