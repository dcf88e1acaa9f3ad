"""The Debian packages that local desktops need.

`python -m practicum.desktops.packages` prints the missing ones, for the set-up script.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Package:
    """A package, and how to see that it is there."""

    name: str
    sign: str
    """A program it brings, or the path of a file."""
    purpose: str

    @property
    def is_installed(self) -> bool:
        """Whether it is there."""
        if "/" not in self.sign:
            return shutil.which(self.sign) is not None
        return any(os.path.exists(path) for path in self.sign.split(":"))  # noqa: PTH110


PACKAGES = (
    Package("xvfb", "Xvfb", "the X server"),
    Package("openbox", "openbox", "the window manager"),
    Package("dbus", "dbus-daemon", "the bus of a session"),
    Package(
        "at-spi2-core",
        "/usr/libexec/at-spi-bus-launcher:/usr/lib/at-spi2-core/at-spi-bus-launcher",
        "accessibility",
    ),
    Package(
        "libatk-adaptor",
        "/usr/share/doc/libatk-adaptor",
        "accessibility of older applications",
    ),
    Package("xclip", "xclip", "the clipboard"),
    Package("fonts-dejavu-core", "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf", "fonts"),
    Package("xfce4-terminal", "xfce4-terminal", "the terminal"),
    Package("xterm", "xterm", "a terminal that is up at once"),
    Package("mousepad", "mousepad", "the text editor"),
    Package("pcmanfm", "pcmanfm", "the file manager"),
    Package("chromium", "chromium", "the web browser"),
    Package("libreoffice-calc", "localc", "the spreadsheet"),
    Package(
        "libreoffice-gtk3",
        "/usr/lib/libreoffice/program/libvclplug_gtk3lo.so",
        "the spreadsheet's looks and accessibility",
    ),
    Package("xdg-utils", "xdg-open", "opening files, for OSWorld's clients"),
    Package("feh", "feh", "wallpapers, for OSWorld's clients"),
    Package("ffmpeg", "ffmpeg", "recordings, for OSWorld's clients"),
    Package("wmctrl", "wmctrl", "windows, for OSWorld's clients"),
    Package("x11-utils", "xprop", "the order of windows, for OSWorld's clients"),
)


def missing() -> list[Package]:
    """The packages that are not there."""
    return [package for package in PACKAGES if not package.is_installed]


def install_line(packages: Sequence[Package]) -> str:
    """The line to type to get some packages."""
    sudo = "" if os.geteuid() == 0 else "sudo "
    names = " ".join(package.name for package in packages)
    return f"{sudo}apt-get install --no-install-recommends {names}"


if __name__ == "__main__":
    sys.stdout.write(" ".join(package.name for package in missing()) + "\n")
