"""How each application of a task is started so that it works offline and can be read."""

from __future__ import annotations

from collections.abc import Sequence

from practicum.desktops.computer import Computer
from practicum.envs.desktop.spec import App


def app_command(app: App, arguments: Sequence[str], computer: Computer) -> list[str]:
    """The command line of an application with files or addresses to open."""
    home = str(computer.home)
    given = [
        home + argument[1:] if argument.startswith("~") else argument for argument in arguments
    ]
    return [*_COMMANDS[app], *given]


_COMMANDS: dict[App, tuple[str, ...]] = {
    "terminal": ("xfce4-terminal", "--disable-server", "--title", "Terminal"),
    "editor": ("mousepad",),
    "files": ("pcmanfm",),
    "browser": (
        "chromium",
        "--no-first-run",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--force-renderer-accessibility",
    ),
    "spreadsheet": ("soffice", "--calc", "--norestore", "--nologo"),
}
