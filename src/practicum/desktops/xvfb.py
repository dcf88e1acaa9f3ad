"""A local desktop on an X server of its own: Xvfb, a window manager, D-Bus, accessibility.

As root, each desktop has a user of its own; otherwise it runs as the user we are. Its keeper
ends and removes all of it when it is stopped, or when this process dies.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from practicum.core.errors import MachineError
from practicum.desktops.atspi import Accessibility
from practicum.desktops.computer import Computer, Screen
from practicum.desktops.frames import Framebuffer
from practicum.desktops.homes import give_away, make_home
from practicum.desktops.local import LocalComputer, Surroundings, XThread
from practicum.desktops.processes import Processes, Program, Spec
from practicum.desktops.users import User, take_user
from practicum.desktops.x11 import XClient, authority

FULL_HD = Screen(1920, 1080)
BACKGROUND = 0x3B5566
_READY_LIMIT_S = 30.0

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
class DesktopOptions:
    """How a local desktop is made."""

    screen: Screen = FULL_HD
    template: Path | None = None
    """A folder whose content is copied over the user's home."""


@dataclass(eq=False)
class _Running:
    """What a desktop that is up consists of."""

    processes: Processes
    user: User | None
    folder: Path
    display: int
    server: Program
    x: XClient
    thread: XThread
    framebuffer: Framebuffer
    accessibility: Accessibility
    computer: LocalComputer


class XvfbMachine:
    """A `Machine` on this host without isolation other than its user."""

    def __init__(self, options: DesktopOptions | None = None) -> None:
        self._options = options or DesktopOptions()
        self._id = f"x-{secrets.token_hex(4)}"
        self._running: _Running | None = None

    @property
    def id(self) -> str:
        """A short name that is new for every machine."""
        return self._id

    @property
    def computer(self) -> Computer:
        """What to act on; a new one after each reset."""
        return self._up().computer

    @property
    def display(self) -> str:
        """The X display, as in `:3`."""
        return f":{self._up().display}"

    @property
    def keeper_pid(self) -> int:
        """The process that all others of the desktop descend from."""
        return self._up().processes.keeper_pid

    def _up(self) -> _Running:
        if self._running is None:
            raise MachineError(f"desktop {self._id} is not up", kind="down")
        return self._running

    async def start(self) -> None:
        """Bring it up; returns when input and screenshots work."""
        if self._running is not None:
            raise MachineError(f"desktop {self._id} is up already", kind="state")
        missing = [name for name in PROGRAMS if shutil.which(name) is None]
        if missing:
            raise MachineError(
                f"{', '.join(missing)} not installed: practicum doctor desktop", kind="missing"
            )
        try:
            async with asyncio.timeout(_READY_LIMIT_S), contextlib.AsyncExitStack() as undo:
                self._running = await _bring_up(self._options, undo)
                undo.pop_all()
        except TimeoutError as error:
            raise MachineError(
                f"no desktop was ready within {_READY_LIMIT_S:g} s", kind="timeout"
            ) from error

    async def reset(self) -> None:
        """Give it back its first state: no process, no file of the last user is left."""
        await self.stop()
        await self.start()

    async def check(self) -> None:
        """Raise `MachineError` if it does not work any more."""
        running = self._up()
        if not running.processes.is_alive:
            raise MachineError(f"the keeper of desktop {self._id} has ended", kind="down")
        if running.server.ended.done():
            raise MachineError(f"the X server of desktop {self._id} has ended", kind="display")
        await running.thread.call(running.x.sync)
        if not await running.thread.call(running.x.has_window_manager):
            raise MachineError(f"desktop {self._id} lost its window manager", kind="window-manager")

    async def stop(self) -> None:
        """Take it down and remove all it left; idempotent."""
        running, self._running = self._running, None
        if running is None:
            return
        await running.accessibility.close()
        await _take_down(running.processes, running.user)
        running.thread.close(running.x.close, running.framebuffer.close)


PROGRAMS = ("Xvfb", "openbox", "dbus-daemon", "xclip", "bash")
"""What every local desktop runs."""


async def _take_down(processes: Processes, user: User | None) -> None:
    try:
        await processes.stop()
    finally:
        if user is not None:
            user.give_back()


async def _bring_up(options: DesktopOptions, undo: contextlib.AsyncExitStack) -> _Running:
    user = take_user()
    name = f"practicum-{secrets.token_hex(6)}"
    folder = Path(tempfile.gettempdir()) / name
    memory = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else folder
    pictures = memory / f"{name}-screen"
    processes = Processes(
        Spec(
            uid=user.uid if user else None,
            owns_uid=user is not None and user.is_exclusive,
            remove=(str(folder), str(pictures)),
        ),
        lock_fd=user.lock_fd if user else None,
    )
    undo.push_async_callback(_take_down, processes, user)
    processes.start()
    cookie = secrets.token_bytes(16)
    home = await asyncio.to_thread(_make_folders, folder, pictures, options.template, cookie, user)
    env = _environment(home, folder / "run")
    if user is not None and user.is_exclusive:
        await processes.bind(_name_user(folder, home, user))

    bus = asyncio.create_task(_start_bus(processes, env, folder / "run"))
    undo.push_async_callback(_drop, bus)
    server, display = await _start_server(processes, env, options.screen, pictures)
    env["DISPLAY"] = f":{display}"
    x_socket = f"/tmp/.X11-unix/X{display}"
    processes.remove_in_the_end([x_socket, f"/tmp/.X{display}-lock"])
    await processes.spawn(["openbox", "--sm-disable"], env=env, cwd=str(home))

    thread = XThread(name)
    x = await thread.call(XClient, x_socket, cookie)
    undo.callback(thread.close, x.close)
    await thread.call(x.paint_root, BACKGROUND)
    framebuffer = Framebuffer(pictures / "Xvfb_screen0", options.screen)
    undo.callback(framebuffer.close)
    await thread.call(x.await_window_manager)
    await bus
    accessibility = Accessibility(env["DBUS_SESSION_BUS_ADDRESS"], options.screen)
    undo.push_async_callback(accessibility.close)
    accessibility.begin()
    around = Surroundings(PurePosixPath(home), env)
    computer = LocalComputer(processes, around, x, thread, framebuffer, accessibility)
    return _Running(
        *(processes, user, folder, display, server),
        *(x, thread, framebuffer, accessibility, computer),
    )


async def _drop(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, MachineError):
        await task


def _make_folders(
    folder: Path, pictures: Path, template: Path | None, cookie: bytes, user: User | None
) -> Path:
    """The desktop's folders; returns the home among them."""
    home, run = folder / "home", folder / "run"
    folder.mkdir(mode=0o711)
    make_home(home, template)
    run.mkdir(mode=0o700)
    pictures.mkdir(mode=0o700, parents=True)
    (folder / "tmp").mkdir(mode=0o700)
    (run / "xauthority").write_bytes(authority(cookie))
    (run / "xauthority").chmod(0o600)
    (run / "bus.conf").write_text(_BUS_CONFIG.format(socket=run / "bus"))
    if user is not None:
        for top in (home, run, pictures, folder / "tmp"):
            give_away(top, user.uid)
    x_sockets = Path("/tmp/.X11-unix")
    if not x_sockets.exists():
        with contextlib.suppress(FileExistsError):
            x_sockets.mkdir()
            x_sockets.chmod(0o1777)
    return home


def _environment(home: Path, run: Path) -> dict[str, str]:
    """Nothing of our own environment: it may hold secrets, and desktops are to be alike."""
    return {
        "HOME": str(home),
        "USER": "user",
        "LOGNAME": "user",
        "SHELL": "/bin/bash",
        "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin:/usr/games",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "TMPDIR": str(home.parent / "tmp"),
        "XAUTHORITY": str(run / "xauthority"),
        "XDG_RUNTIME_DIR": str(run),
        "DBUS_SESSION_BUS_ADDRESS": f"unix:path={run / 'bus'}",
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


def _name_user(folder: Path, home: Path, user: User) -> list[tuple[str, str]]:
    """Lists of users that know the desktop's: D-Bus and others refuse one without a name."""
    mounts = []
    for name, line in {
        "passwd": f"user:x:{user.uid}:{user.uid}:User:{home}:/bin/bash\n",
        "group": f"user:x:{user.uid}:\n",
    }.items():
        known = Path("/etc", name).read_text().splitlines(keepends=True)
        kept = [entry for entry in known if not entry.startswith("user:")]
        (folder / name).write_text("".join([*kept, line]))
        mounts.append((str(folder / name), f"/etc/{name}"))
    return mounts


async def _start_server(
    processes: Processes, env: dict[str, str], screen: Screen, pictures: Path
) -> tuple[Program, int]:
    """Start the X server, which chooses a free display; returns its number."""
    line, line_w = os.pipe2(os.O_CLOEXEC)
    null = os.open(os.devnull, os.O_RDWR)
    try:
        server = await processes.spawn(
            [
                *("Xvfb", "-displayfd", "3", "-screen", "0"),
                f"{screen.width}x{screen.height}x24",
                *("-noreset", "-nolisten", "tcp", "-dpi", "96", "-s", "0"),
                *("-auth", env["XAUTHORITY"], "-fbdir", str(pictures)),
            ],
            env=env,
            cwd="/",
            fds=(null, null, null, line_w),
        )
    except BaseException:
        os.close(line)
        raise
    finally:
        os.close(null)
        os.close(line_w)
    said = await _first_line(line)
    if not said.isdigit():
        raise MachineError("Xvfb ended before it was ready", kind="display")
    return server, int(said)


async def _start_bus(processes: Processes, env: dict[str, str], run: Path) -> None:
    line, line_w = os.pipe2(os.O_CLOEXEC)
    null = os.open(os.devnull, os.O_RDWR)
    try:
        await processes.spawn(
            [
                *("dbus-daemon", "--nofork", "--nopidfile", "--print-address=3"),
                f"--config-file={run / 'bus.conf'}",
            ],
            env=env,
            cwd="/",
            fds=(null, null, null, line_w),
        )
    except BaseException:
        os.close(line)
        raise
    finally:
        os.close(null)
        os.close(line_w)
    if not await _first_line(line):
        raise MachineError("dbus-daemon ended before it was ready", kind="bus")


async def _first_line(fd: int) -> str:
    """Read a line from a pipe, then close it; what came before the end, if no line did."""
    loop = asyncio.get_running_loop()
    os.set_blocking(fd, False)
    said = b""
    try:
        while not said.endswith(b"\n"):
            readable = loop.create_future()
            loop.add_reader(fd, readable.set_result, None)
            try:
                await readable
            finally:
                loop.remove_reader(fd)
            part = os.read(fd, 4096)
            if not part:
                break
            said += part
    finally:
        os.close(fd)
    return said.decode().strip()
