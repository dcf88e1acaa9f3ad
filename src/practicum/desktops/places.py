"""Where a local desktop lives: its folders as we see them, and as its programs do.

On the host the two are the same. In a room (`namespaces`) the programs have a home, a display
and sockets whose names are the same in every room.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from practicum.core.errors import MachineError
from practicum.desktops.homes import give_away, make_home
from practicum.desktops.namespaces import Plan, name_plan, room_plan
from practicum.desktops.users import User
from practicum.desktops.x11 import authority

ROOM_HOME = "/home/user"
_X_SOCKETS = "/tmp/.X11-unix"
_MAX_FOLDER_LENGTH = 107 - len("/run/at-spi/bus_999")
"""The names of sockets in it have at most 107 characters."""

_BUS_CONFIG = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <listen>unix:path={socket}</listen>
  <auth>EXTERNAL</auth>
  <standard_session_servicedirs/>
  <policy context="default">
    <!-- The socket's folder keeps strangers out; the owner of the desktop may be root. -->
    <allow user="*"/>
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
    <allow own="*"/>
  </policy>
</busconfig>
"""


@dataclass(frozen=True, slots=True)
class Names:
    """Unused names for a desktop's folders on the host."""

    folder: Path
    pictures: Path
    """On a file system in memory, where there is one."""

    @classmethod
    def draw(cls) -> Names:
        """Make up new ones."""
        name = f"practicum-{secrets.token_hex(6)}"
        folder = Path(tempfile.gettempdir()) / name
        if len(str(folder)) > _MAX_FOLDER_LENGTH:
            raise MachineError(
                f"{folder} is too long for the names of sockets in it: set TMPDIR to a folder "
                "with a shorter name",
                kind="spawn",
            )
        memory = Path("/dev/shm")
        is_usable = os.access(memory, os.W_OK)
        return cls(folder, memory / name if is_usable else folder / "screen")


@dataclass(frozen=True, slots=True)
class Place:
    """A desktop's folders, made."""

    home: PurePosixPath
    run: PurePosixPath
    """With the sockets and the cookie, as programs see it."""
    pictures: PurePosixPath
    tmp: str
    run_here: Path
    """The same folder as we see it."""
    pictures_here: Path
    x_sockets_here: Path
    plan: Plan | None
    """The namespaces to enter first."""

    @property
    def is_on_host(self) -> bool:
        """Whether display numbers are shared with all others on this machine."""
        return str(self.x_sockets_here) == _X_SOCKETS

    def here(self, address: str) -> str:
        """A D-Bus address told by a program, as we reach it."""
        return address.replace(f"path={self.run}/", f"path={self.run_here}/")


def make_host_place(names: Names, template: Path | None, cookie: bytes, user: User | None) -> Place:
    """A place on the host itself."""
    folder = names.folder
    home, run, tmp = folder / "home", folder / "run", folder / "tmp"
    folder.mkdir(mode=0o711)
    make_home(home, template)
    _make_run(run, str(run), cookie)
    tmp.mkdir(mode=0o700)
    names.pictures.mkdir(mode=0o700)
    if user is not None:
        for top in (home, run, tmp, names.pictures):
            give_away(top, user.uid)
    _make_x_sockets()
    plan = None
    if user is not None and user.is_exclusive:
        plan = name_plan(_make_lists(folder, str(home), user.uid, user.uid))
    return Place(
        *(PurePosixPath(home), PurePosixPath(run), PurePosixPath(names.pictures), str(tmp)),
        *(run, names.pictures, Path(_X_SOCKETS), plan),
    )


def make_lower(lower: Path, template: Path | None, user: User | None) -> None:
    """The home that the homes of rooms lie over; they never change it."""
    make_home(lower, template)
    if user is not None:
        give_away(lower, user.uid)


def make_room_place(names: Names, lower: Path, cookie: bytes, user: User | None) -> Place:
    """A place in namespaces of its own."""
    folder = names.folder
    uid = user.uid if user is not None else os.getuid()
    gid = user.uid if user is not None else os.getgid()
    run, sockets, root = folder / "run", folder / "x", folder / "root"
    inside = f"/run/user/{uid}"
    folder.mkdir(mode=0o711)
    root.mkdir()
    _make_run(run, inside, cookie)
    sockets.mkdir(mode=0o700)
    names.pictures.mkdir(mode=0o700)
    if user is not None:
        for top in (run, sockets, names.pictures):
            give_away(top, user.uid)
    plan = room_plan(
        root,
        home=ROOM_HOME,
        lower=lower,
        uid=uid,
        gid=gid,
        shown={inside: run, "/run/screen": names.pictures, _X_SOCKETS: sockets},
        lists=_make_lists(folder, ROOM_HOME, uid, gid),
    )
    return Place(
        *(PurePosixPath(ROOM_HOME), PurePosixPath(inside), PurePosixPath("/run/screen"), "/tmp"),
        *(run, names.pictures, sockets, plan),
    )


def environment(place: Place) -> dict[str, str]:
    """Nothing of our own environment: it may hold secrets, and desktops are to be alike."""
    return {
        "HOME": str(place.home),
        "USER": "user",
        "LOGNAME": "user",
        "SHELL": "/bin/bash",
        "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin:/usr/games",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "TMPDIR": place.tmp,
        "XAUTHORITY": str(place.run / "xauthority"),
        "XDG_RUNTIME_DIR": str(place.run),
        "DBUS_SESSION_BUS_ADDRESS": f"unix:path={place.run / 'bus'}",
        # Settings in a file of the home folder, and no helpers of GNOME beside each program.
        "GSETTINGS_BACKEND": "keyfile",
        "GIO_USE_VFS": "local",
        # Accessibility, as each toolkit wants to be told.
        "GTK_MODULES": "gail:atk-bridge",
        "GNOME_ACCESSIBILITY": "1",
        "QT_ACCESSIBILITY": "1",
        "QT_LINUX_ACCESSIBILITY_ALWAYS_ON": "1",
        "ACCESSIBILITY_ENABLED": "1",
        "SAL_USE_VCLPLUGIN": "gtk3",
        "SAL_ACCESSIBILITY_ENABLED": "1",
    }


def _make_run(run: Path, inside: str, cookie: bytes) -> None:
    run.mkdir(mode=0o700)
    (run / "xauthority").write_bytes(authority(cookie))
    (run / "xauthority").chmod(0o600)
    (run / "bus.conf").write_text(_BUS_CONFIG.format(socket=f"{inside}/bus"))


def _make_lists(folder: Path, home: str, uid: int, gid: int) -> dict[str, Path]:
    """Lists of users that know the desktop's: D-Bus and others refuse one without a name."""
    lists = {}
    for name, line in {
        "passwd": f"user:x:{uid}:{gid}:User:{home}:/bin/bash\n",
        "group": f"user:x:{gid}:\n",
    }.items():
        known = Path("/etc", name).read_text().splitlines(keepends=True)
        # The first entry with a number counts.
        kept = [entry for entry in known if not entry.startswith("user:")]
        (folder / name).write_text("".join([line, *kept]))
        lists[f"/etc/{name}"] = folder / name
    return lists


def _make_x_sockets() -> None:
    folder = Path(_X_SOCKETS)
    if not folder.exists():
        folder.mkdir(exist_ok=True)
        folder.chmod(0o1777)
