"""What stands in for programs that tasks of OSWorld name and Debian has under another name.

Where there is no Google Chrome, Chromium is used under its name: started with its command, with
its profile in the folder where evaluators look for it, and called so in OSWorld's tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from practicum.desktops.apps import BROWSER
from practicum.desktops.computer import Node
from practicum.desktops.server.desk import Desk

CHROME = "Google Chrome"
_CHROME_COMMAND = "google-chrome"
_CHROMIUM = "Chromium"


class StandIns:
    """Knows which programs a desktop lacks."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._found: dict[str, bool] = {}
        """Programs come from the host, so a reset changes none of them."""

    async def command(self, command: Sequence[str] | str) -> list[str] | str:
        """A command that can be started here."""
        if isinstance(command, str):
            return command
        program, *rest = command
        if program == "python" and not await self._has(program):
            return ["python3", *rest]
        if program == _CHROME_COMMAND and not await self._has(program):
            profile = f"--user-data-dir={self._desk.computer.home}/.config/{_CHROME_COMMAND}"
            return [*BROWSER.command, profile, *rest]
        return [program, *rest]

    async def tree(self, tree: Node) -> Node:
        """A tree in which evaluators find the browser."""
        if await self._has(_CHROME_COMMAND):
            return tree
        named = [
            replace(app, name=CHROME) if app.name == _CHROMIUM else app for app in tree.children
        ]
        return replace(tree, children=tuple(named))

    async def window(self, name: str) -> str | None:
        """Another name under which a window may be found."""
        if CHROME.lower() not in name.lower() or await self._has(_CHROME_COMMAND):
            return None
        return _CHROMIUM

    async def _has(self, program: str) -> bool:
        if program not in self._found:
            found = await self._desk.computer.run(
                ["sh", "-c", 'command -v "$1"', "sh", program], timeout_s=10
            )
            self._found[program] = found.exit_code == 0
        return self._found[program]
