"""A computer behind Windows Agent Arena's server: its own routes and ways.

Its `/execute_windows` says nothing of what it ran and calls it an error when the output holds the
word, so commands go through `/execute`; there a text without a shell loses its backslashes, so
they go as lists or to a shell. There is no snapshot: `close_all` and `clear_task_files` are as
far as a reset goes.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

from practicum.core.errors import MachineError
from practicum.desktops.computer import CommandResult, Window
from practicum.desktops.remote.calls import CallError
from practicum.desktops.remote.computer import GRACE_S
from practicum.desktops.remote.osworld import MAX_COMMAND_S, OsworldComputer

MAX_SPEC_BYTES = 24_000
"""A command line of Windows holds 32 KiB."""

_WINDOWS = """
import json, pygetwindow
active = pygetwindow.getActiveWindow()
number = active._hWnd if active else None
print(json.dumps([
    [w._hWnd, w.title, w.left, w.top, w.width, w.height, w._hWnd == number]
    for w in pygetwindow.getAllWindows() if w.visible and w.title
]))
"""
_ON_WINDOW = "import pygetwindow; pygetwindow.Win32Window({id}).{verb}()"
_RUN = """
import base64, json, subprocess, sys
spec = json.loads(base64.b64decode(sys.argv[1]))
data = None if spec["stdin"] is None else base64.b64decode(spec["stdin"])
try:
    done = subprocess.run(spec["command"], shell=spec["shell"], cwd=spec["cwd"], input=data,
                          capture_output=True, timeout=spec["timeout_s"])
    streams = [base64.b64encode(one).decode() for one in (done.stdout, done.stderr)]
    said = [done.returncode, *streams]
except subprocess.TimeoutExpired:
    said = None
print(json.dumps(said))
"""


class WaaComputer(OsworldComputer):
    """A `Computer` over the routes of Windows Agent Arena's server."""

    less_than_is_greater = False
    tree_path = "/accessibility?backend=uia"
    accessibility_timeout_s = 300.0

    async def clipboard(self) -> str:
        """The text in the clipboard."""
        done = await self._powershell("Get-Clipboard -Raw")
        return done.output.removesuffix("\r\n").removesuffix("\n")

    async def set_clipboard(self, text: str) -> None:
        """Put a text into the clipboard."""
        data = base64.b64encode(text.encode()).decode()
        value = f"[Text.Encoding]::UTF8.GetString([Convert]::FromBase64String('{data}'))"
        await self._powershell(f"Set-Clipboard -Value ({value})")

    async def windows(self) -> Sequence[Window]:
        """The windows there are, the topmost last."""
        done = await self._python(_WINDOWS)
        try:
            listed = json.loads(done.output)
            # Windows gives the topmost first. It has no class that tasks could name.
            return [
                Window(str(number), title, "", left, top, width, height, is_active)
                for number, title, left, top, width, height, is_active in reversed(listed)
            ]
        except (ValueError, TypeError) as error:
            raise MachineError(f"no windows: {done.output[:200]!r}", kind="bad-reply") from error

    async def activate_window(self, window_id: str) -> None:
        """Raise a window and give it the keyboard."""
        await self._python(_ON_WINDOW.format(id=int(window_id), verb="activate"))

    async def close_window(self, window_id: str) -> None:
        """Ask a window to close."""
        await self._python(_ON_WINDOW.format(id=int(window_id), verb="close"))

    async def run(
        self,
        command: Sequence[str] | str,
        *,
        timeout_s: float = 120,
        cwd: str | None = None,
        stdin: bytes | None = None,
    ) -> CommandResult:
        """Run a command to its end; a string goes to Windows' shell."""
        if timeout_s > MAX_COMMAND_S:
            raise MachineError(
                f"the server ends commands after {MAX_COMMAND_S:g} s, and {timeout_s:g} s are "
                "asked for",
                kind="unsupported",
            )
        is_text = isinstance(command, str)
        spec: dict[str, Any] = {
            "command": command if is_text else list(command),
            "shell": is_text,
            "cwd": None if cwd is None else self._path(cwd),
            "stdin": None if stdin is None else base64.b64encode(stdin).decode(),
            "timeout_s": timeout_s,
        }
        letter = base64.b64encode(json.dumps(spec).encode()).decode()
        if len(letter) > MAX_SPEC_BYTES:
            raise MachineError(
                "a command line of Windows is not long enough for this command and its input: "
                "write a file",
                kind="unsupported",
            )
        done = await self._execute(["python", "-c", _RUN, letter], timeout_s + GRACE_S)
        self._expect(done, "python")
        said = json.loads(done.output)
        if said is None:
            raise MachineError(f"{command!r} did not end within {timeout_s:g} s", kind="timeout")
        exit_code, output, error = said
        return CommandResult(exit_code, _text(output), _text(error))

    async def read_file(self, path: str) -> bytes:
        """A file's bytes; none there is a `FileNotFoundError`. `~/` is the home folder."""
        try:
            return await super().read_file(path)
        except CallError as error:
            # Its word for a file that is not there comes as a fault of the server.
            if "no such file" in str(error).lower() or "not found" in str(error).lower():
                raise FileNotFoundError(f"there is no file {path}") from error
            raise

    async def close_all(self) -> None:
        """Close all windows."""
        await self._calls.do("/setup/close_all", json={})

    async def clear_task_files(self) -> None:
        """Empty the folder of downloads."""
        await self._calls.do("/setup/clear_task_files", json={})

    async def _powershell(self, script: str) -> CommandResult:
        done = await self._execute(["powershell", "-NoProfile", "-Command", script], 60)
        self._expect(done, "PowerShell")
        return done

    async def _python(self, text: str) -> CommandResult:
        done = await self._execute(["python", "-c", text], 60)
        self._expect(done, "python")
        return done


def _text(data: str) -> str:
    return base64.b64decode(data).decode("utf-8", "replace").replace("\r\n", "\n")
