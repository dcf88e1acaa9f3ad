"""Local desktops, each on an X server of its own: Xvfb, a window manager, D-Bus, accessibility.

`XvfbMachine` lives on the host: as root, each desktop has a user of its own; otherwise it runs as
the user we are. `NamespaceMachine` is the same in a room of its own. Either way a keeper ends and
removes all of it when it is stopped, or when this process dies.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from practicum.core.errors import MachineError
from practicum.desktops.atspi import Accessibility
from practicum.desktops.computer import Screen
from practicum.desktops.frames import Framebuffer
from practicum.desktops.local import LocalComputer, Surroundings, XThread
from practicum.desktops.namespaces import why_no_room
from practicum.desktops.places import (
    Names,
    Place,
    environment,
    make_host_place,
    make_lower,
    make_room_place,
)
from practicum.desktops.processes import Processes, Program, Spec
from practicum.desktops.users import User, take_user
from practicum.desktops.x11 import XClient

FULL_HD = Screen(1920, 1080)
BACKGROUND = 0x3B5566
PROGRAMS = ("Xvfb", "openbox", "dbus-daemon", "xclip", "bash")
"""What every local desktop runs."""
_READY_LIMIT_S = 30.0


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
        self._leaving: _Running | None = None
        """What is being taken down."""
        self._removal: asyncio.Task[None] | None = None

    @property
    def id(self) -> str:
        """A short name that is new for every machine."""
        return self._id

    @property
    def computer(self) -> LocalComputer:
        """What to act on; a new one after each reset."""
        return self._up().computer

    @property
    def display(self) -> str:
        """The X display as programs on it know it, as in `:3`."""
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
                self._running = await self._bring_up(undo)
                undo.pop_all()
        except TimeoutError as error:
            raise MachineError(
                f"no desktop was ready within {_READY_LIMIT_S:g} s", kind="timeout"
            ) from error

    async def reset(self) -> None:
        """Give it back its first state: no process, no file of the last user is left."""
        await self._take_down()
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
        await self._take_down()

    async def _take_down(self) -> None:
        if self._running is not None:
            self._leaving, self._running = self._running, None
        if self._leaving is None:
            return
        # In a task of its own: whoever asks may be cancelled half-way, and it must still end.
        if self._removal is None or self._removal.done():
            self._removal = asyncio.create_task(self._remove(self._leaving))
        await asyncio.shield(self._removal)

    async def _remove(self, leaving: _Running) -> None:
        await leaving.accessibility.close()
        await _end(leaving.processes, leaving.user)
        leaving.thread.close(leaving.x.close, leaving.framebuffer.close)
        self._leaving = None

    def _make_place(self, names: Names, cookie: bytes, user: User | None) -> Place:
        return make_host_place(names, self._options.template, cookie, user)

    def _kept(self) -> Sequence[str]:
        """What a reset keeps, to be deleted if this process dies."""
        return ()

    async def _bring_up(self, undo: contextlib.AsyncExitStack) -> _Running:
        screen = self._options.screen
        user = take_user()
        names = Names.draw()
        processes = Processes(
            Spec(
                uid=user.uid if user else None,
                owns_uid=user is not None and user.is_exclusive,
                remove=(str(names.folder), str(names.pictures)),
                remove_if_orphaned=tuple(self._kept()),
            ),
            lock_fd=user.lock_fd if user else None,
        )
        undo.push_async_callback(_end, processes, user)
        processes.start()
        cookie = secrets.token_bytes(16)
        place = await asyncio.to_thread(self._make_place, names, cookie, user)
        if place.plan is not None:
            await processes.enter(place.plan)
        env = environment(place)

        bus = asyncio.create_task(_start_bus(processes, env, place))
        undo.push_async_callback(_drop, bus)
        server, display = await _start_server(processes, env, screen, place)
        env["DISPLAY"] = f":{display}"
        x_socket = str(place.x_sockets_here / f"X{display}")
        if place.is_on_host:
            processes.note_display(display)
        await processes.spawn(["openbox", "--sm-disable"], env=env, cwd=str(place.home))

        thread = XThread(self._id)
        x = await thread.call(XClient, x_socket, cookie)
        undo.callback(thread.close, x.close)
        await thread.call(x.paint_root, BACKGROUND)
        framebuffer = Framebuffer(place.pictures_here / "Xvfb_screen0", screen)
        undo.callback(framebuffer.close)
        await thread.call(x.await_window_manager)
        await bus
        address = env["DBUS_SESSION_BUS_ADDRESS"]
        accessibility = Accessibility(address, screen, place.here, partial(_program, processes))
        undo.push_async_callback(accessibility.close)
        accessibility.begin()
        around = Surroundings(place.home, env)
        computer = LocalComputer(processes, around, x, thread, framebuffer, accessibility)
        return _Running(
            processes, user, display, server, x, thread, framebuffer, accessibility, computer
        )


class NamespaceMachine(XvfbMachine):
    """A `Machine` in a room: mounts, processes, network, IPC and a home of its own."""

    def __init__(self, options: DesktopOptions | None = None) -> None:
        super().__init__(options)
        self._lower: Path | None = None
        """The home as it is before anybody used it; made once, for all resets."""

    async def start(self) -> None:
        """Bring it up; returns when input and screenshots work."""
        reason = await asyncio.to_thread(why_no_room)
        if reason is not None:
            raise MachineError(
                f"no desktop in namespaces here: {reason}; the xvfb body needs none",
                kind="namespace",
            )
        await super().start()

    async def stop(self) -> None:
        """Take it down and remove all it left; idempotent."""
        await super().stop()
        lower, self._lower = self._lower, None
        if lower is not None:
            await asyncio.to_thread(shutil.rmtree, lower, ignore_errors=True)

    def _kept(self) -> Sequence[str]:
        if self._lower is None:
            self._lower = Names.draw().folder
        return [str(self._lower)]

    def _make_place(self, names: Names, cookie: bytes, user: User | None) -> Place:
        assert self._lower is not None
        if not self._lower.exists():
            make_lower(self._lower, self._options.template, user)
        return make_room_place(names, self._lower, cookie, user)


async def _end(processes: Processes, user: User | None) -> None:
    await processes.stop()
    if user is not None:
        user.give_back()


async def _program(processes: Processes, pid: int) -> str:
    """The name of the program behind a process id, as the desktop's programs count them."""
    argv = ["cat", f"/proc/{pid}/comm"]
    exit_code, name, _ = await processes.run(argv, env={"PATH": "/bin"}, cwd="/", timeout_s=5)
    return name.decode(errors="replace").strip() if exit_code == 0 else f"process {pid}"


async def _drop(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, MachineError):
        await task


async def _start_server(
    processes: Processes, env: dict[str, str], screen: Screen, place: Place
) -> tuple[Program, int]:
    """Start the X server, which chooses a free display; returns its number."""
    server, said = await _start_service(
        processes,
        [
            *("Xvfb", "-displayfd", "3", "-screen", "0"),
            f"{screen.width}x{screen.height}x24",
            *("-noreset", "-nolisten", "tcp", "-dpi", "96", "-s", "0"),
            *("-auth", env["XAUTHORITY"], "-fbdir", str(place.pictures)),
        ],
        env,
    )
    if not said.isdigit():
        raise MachineError("Xvfb ended before it was ready", kind="display")
    return server, int(said)


async def _start_bus(processes: Processes, env: dict[str, str], place: Place) -> None:
    _, said = await _start_service(
        processes,
        [
            *("dbus-daemon", "--nofork", "--nopidfile", "--print-address=3"),
            f"--config-file={place.run / 'bus.conf'}",
        ],
        env,
    )
    if not said:
        raise MachineError("dbus-daemon ended before it was ready", kind="bus")


async def _start_service(
    processes: Processes, argv: Sequence[str], env: dict[str, str]
) -> tuple[Program, str]:
    """Start a program that says a line on its file descriptor 3 once it is ready."""
    line, line_w = os.pipe2(os.O_CLOEXEC)
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        program = await processes.spawn(argv, env=env, cwd="/", fds=(null, null, null, line_w))
    except BaseException:
        os.close(line)
        raise
    finally:
        os.close(null)
        os.close(line_w)
    return program, await _first_line(line)


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
