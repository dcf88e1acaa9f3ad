"""The home folder that a local desktop starts with."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from practicum.desktops.apps import APPS

SKELETON = Path(__file__).with_name("home")
FOLDERS = ("Desktop", "Documents", "Downloads")


def make_home(home: Path, template: Path | None) -> None:
    """Make a home folder: the same for every desktop, and a template's content on top."""
    shutil.copytree(SKELETON, home)
    (home / ".config/openbox/menu.xml").write_text(_menu())
    for name in FOLDERS:
        (home / name).mkdir()
    if template is not None:
        shutil.copytree(template, home, symlinks=True, dirs_exist_ok=True)
    home.chmod(0o700)


def give_away(top: Path, uid: int) -> None:
    """Make a user the owner of a folder and all that is in it."""
    os.chown(top, uid, uid)
    for entry in top.rglob("*"):
        os.lchown(entry, uid, uid)


def _menu() -> str:
    """What a right click on the desktop offers."""
    items = "".join(
        f"<item label={quoteattr(app.title)}><action name='Execute'>"
        f"<command>{escape(shlex.join(app.argv()))}</command></action></item>\n"
        for app in APPS.values()
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<openbox_menu xmlns="http://openbox.org/3.4/menu">\n'
        f'<menu id="root-menu" label="Applications">\n{items}</menu>\n</openbox_menu>\n'
    )
