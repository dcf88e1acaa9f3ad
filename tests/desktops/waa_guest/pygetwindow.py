"""Stands in for pygetwindow on a Windows machine, with two windows."""

import os
from pathlib import Path


class Win32Window:
    def __init__(self, hWnd, title="", visible=True):  # type: ignore[no-untyped-def]
        self._hWnd, self.title, self.visible = hWnd, title, visible
        self.left, self.top, self.width, self.height = 1, 2, 300, 200

    def activate(self):  # type: ignore[no-untyped-def]
        self._note("activate")

    def close(self):  # type: ignore[no-untyped-def]
        self._note("close")

    def _note(self, verb):  # type: ignore[no-untyped-def]
        with Path(os.environ["WAA_GUEST"], "windows").open("a") as file:
            file.write(f"{verb} {self._hWnd}\n")


def getAllWindows():  # type: ignore[no-untyped-def]  # noqa: N802
    return [Win32Window(7, "Notepad"), Win32Window(5, "Explorer"), Win32Window(3, "", False)]


def getActiveWindow():  # type: ignore[no-untyped-def]  # noqa: N802
    return Win32Window(7, "Notepad")
