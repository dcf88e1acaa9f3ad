"""The applications on a local desktop, and how each is started so that it works there.

Plain data: offline, as an unprivileged user, with accessibility on. What to do in them is up to
tasks.
"""

from __future__ import annotations

from dataclasses import dataclass

from practicum.core.errors import unknown_name


@dataclass(frozen=True, slots=True)
class App:
    """An application."""

    name: str
    title: str
    command: tuple[str, ...]
    class_name: str
    """Part of its windows' class, by which they are known."""

    def argv(self, *arguments: str) -> list[str]:
        """The command that starts it, with a file or page to open."""
        return [*self.command, *arguments]


TERMINAL = App(
    "terminal",
    "Terminal",
    # Unlike xterm, it tells over the accessibility bus what it shows.
    ("xfce4-terminal", "--disable-server", "--title", "Terminal"),
    "Xfce4-terminal",
)
EDITOR = App("editor", "Text Editor", ("mousepad", "--disable-server"), "Mousepad")
FILES = App("files", "Files", ("pcmanfm",), "Pcmanfm")
BROWSER = App(
    "browser",
    "Web Browser",
    (
        "chromium",
        "--no-first-run",
        "--no-default-browser-check",
        "--password-store=basic",
        "--force-renderer-accessibility",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        # Nothing that waits for the net, or appears by itself.
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-domain-reliability",
        "--disable-search-engine-choice-screen",
        "--disable-sync",
        "--hide-crash-restore-bubble",
        "--disable-features=Translate,MediaRouter,OptimizationHints,DialMediaRouteProvider",
    ),
    "Chromium",
)
CALC = App(
    "calc",
    "Spreadsheet",
    ("libreoffice", "--calc", "--norestore", "--nologo", "--nofirststartwizard"),
    "libreoffice-calc",
)

APPS = {app.name: app for app in (TERMINAL, EDITOR, FILES, BROWSER, CALC)}


def get_app(name: str) -> App:
    """An application by its name."""
    if name not in APPS:
        raise unknown_name("application", name, APPS)
    return APPS[name]
