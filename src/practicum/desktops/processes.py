"""The owner's side of a desktop's keeper: start programs, run commands to their end.

Which programs make a desktop is decided in `xvfb`.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import itertools
import marshal
import os
import socket
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from practicum.core.errors import MachineError
from practicum.desktops.computer import CommandResult
from practicum.desktops.namespaces import Plan

KEEPER = Path(__file__).with_name("keeper.py")
MAX_OUTPUT_BYTES = 64 << 20
"""More than that from one command is a fault, not a bigger string."""
_STOP_LIMIT_S = 20.0
_READ_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Spec:
    """What a keeper must know from the start."""

    uid: int | None = None
    """The user that programs run as; None for our own."""
    owns_uid: bool = False
    """Whether that user has nothing but this desktop, so that all of theirs may be removed."""
    remove: tuple[str, ...] = ()
    """What to delete in the end."""
    remove_if_orphaned: tuple[str, ...] = ()
    """What else to delete if this process dies before it says that it is the end."""


@dataclass(eq=False)
class Program:
    """A program that was started."""

    number: int
    started: asyncio.Future[int]
    ended: asyncio.Future[int]
    """Its exit code, negative for a signal."""


@dataclass(eq=False)
class _Stream:
    """One end of a pipe that is read until everybody at the other end has gone."""

    fd: int
    limit: int
    data: bytearray = field(default_factory=bytearray)
    is_kept: bool = True


class Processes:
    """All processes of one desktop. Belongs to the event loop that started it."""

    def __init__(self, spec: Spec, *, lock_fd: int | None = None) -> None:
        self._spec = spec
        self._remove = list(spec.remove)
        self._lock_fd = lock_fd
        """Held by the keeper for as long as it lives."""
        self._keeper: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None
        self._numbers = itertools.count(1)
        self._programs: dict[int, Program] = {}
        self._streams: set[_Stream] = set()
        self._gone: asyncio.Future[None] | None = None
        self._pidfd = -1

    @property
    def keeper_pid(self) -> int:
        """The process that all others descend from."""
        return self._keeper.pid if self._keeper else 0

    @property
    def is_alive(self) -> bool:
        """Whether the keeper still runs."""
        return self._gone is not None and not self._gone.done()

    def start(self) -> None:
        """Start the keeper."""
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        owner = os.pidfd_open(os.getpid())
        spec = {
            "uid": self._spec.uid,
            "owns_uid": self._spec.owns_uid,
            "remove": self._remove,
            "remove_if_orphaned": list(self._spec.remove_if_orphaned),
        }
        passed = [theirs.fileno(), owner]
        if self._lock_fd is not None:
            passed.append(self._lock_fd)
        try:
            self._keeper = subprocess.Popen(
                [
                    *(sys.executable, "-I", "-S", str(KEEPER)),
                    *(str(theirs.fileno()), str(owner), marshal.dumps(spec).hex()),
                ],
                pass_fds=passed,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                cwd="/",
                env={"PATH": os.defpath, "LANG": "C.UTF-8"},
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            raise MachineError(f"no keeper process could start: {error}", kind="spawn") from error
        finally:
            theirs.close()
            os.close(owner)
        ours.setblocking(False)
        self._line = ours
        self._gone = loop.create_future()
        self._pidfd = os.pidfd_open(self._keeper.pid)
        loop.add_reader(self._pidfd, self._keeper_ended)
        loop.add_reader(ours.fileno(), self._hear)

    async def spawn(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str,
        fds: Sequence[int] = (),
    ) -> Program:
        """Start a program with these file descriptors as 0, 1, 2, …; null where there is none."""
        request = {"op": "spawn", "argv": list(argv), "env": dict(env), "cwd": cwd}
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        try:
            return await self._begin(request, [*fds, *[null] * (3 - len(fds))])
        finally:
            os.close(null)

    async def enter(self, plan: Plan) -> None:
        """Go into namespaces; all programs started from now on live there."""
        request = {
            "op": "enter",
            "flags": plan.flags,
            "uid_map": plan.uid_map,
            "gid_map": plan.gid_map,
            "steps": [list(step) for step in plan.steps],
        }
        try:
            program = await self._begin(request)
        except MachineError as error:
            raise MachineError(
                f"{str(error).removeprefix('cannot start: ')}: see practicum desktop doctor",
                kind="namespace",
            ) from error
        del self._programs[program.number]

    async def _begin(self, request: Mapping[str, Any], fds: Sequence[int] = ()) -> Program:
        loop = asyncio.get_running_loop()
        program = Program(next(self._numbers), loop.create_future(), loop.create_future())
        self._programs[program.number] = program
        try:
            self._ask({**request, "id": program.number}, fds)
            await program.started
        except BaseException:
            self._programs.pop(program.number, None)
            raise
        return program

    def kill(self, program: Program) -> None:
        """End a program and what shares its process group."""
        if self.is_alive and not program.ended.done():
            self._ask({"op": "kill", "id": program.number})

    def remove_in_the_end(self, paths: Sequence[str]) -> None:
        """Have further files deleted when the desktop goes."""
        self._ask({"op": "remove", "paths": list(paths)})
        self._remove += paths

    async def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str,
        timeout_s: float,
        stdin: bytes | None = None,
        max_bytes: int = MAX_OUTPUT_BYTES,
    ) -> tuple[int, bytes, bytes]:
        """Run a program to its end; its exit code and what it said until then."""
        in_fd = _letter(stdin) if stdin is not None else os.open(os.devnull, os.O_RDONLY)
        out, out_w = self._listen(max_bytes)
        err, err_w = self._listen(max_bytes)
        try:
            try:
                program = await self.spawn(argv, env=env, cwd=cwd, fds=(in_fd, out_w, err_w))
            finally:
                for fd in (in_fd, out_w, err_w):
                    os.close(fd)
            try:
                async with asyncio.timeout(timeout_s):
                    exit_code = await asyncio.shield(program.ended)
            except TimeoutError as error:
                said = bytes((err.data or out.data)[-300:]).decode(errors="replace").strip()
                raise MachineError(
                    f"{_shown(argv)} did not end within {timeout_s:g} s and was killed"
                    + (f"; it last said: {said}" if said else ""),
                    kind="timeout",
                ) from error
            finally:
                self.kill(program)
            for stream in (out, err):
                self._drain(stream)
                if len(stream.data) > max_bytes:
                    raise MachineError(
                        f"{_shown(argv)} said more than {max_bytes} bytes", kind="output"
                    )
            return exit_code, bytes(out.data), bytes(err.data)
        finally:
            # What it started may still write: read on, or that program would be ended by it.
            for stream in (out, err):
                stream.is_kept = False
                stream.data.clear()

    async def stop(self) -> None:
        """End all processes and remove the files; idempotent."""
        await self._wait_for_end()
        if self._keeper is not None and self._keeper.returncode != 0:
            # Somebody killed the keeper: another one, without a desktop, clears up after it.
            self.start()
            await self._wait_for_end()
        self._keeper = None

    async def _wait_for_end(self) -> None:
        if self._line is not None:
            with contextlib.suppress(MachineError):  # it may be gone already
                self._ask({"op": "end"})
            self._hang_up()
        if self._gone is None:
            return
        try:
            async with asyncio.timeout(_STOP_LIMIT_S):
                await asyncio.shield(self._gone)
        except TimeoutError as error:
            raise MachineError(
                f"the processes of a desktop did not end within {_STOP_LIMIT_S:g} s", kind="stop"
            ) from error

    def _ask(self, request: Mapping[str, Any], fds: Sequence[int] = ()) -> None:
        if self._line is None:
            raise MachineError("the desktop is down: its keeper has ended", kind="down")
        # In a file, since a message on the line can only be so long.
        letter = _letter(marshal.dumps(dict(request)))
        try:
            socket.send_fds(self._line, [b"?"], [letter, *fds])
        except OSError as error:
            raise MachineError(f"the desktop's keeper does not listen: {error}", kind="down") from (
                error
            )
        finally:
            os.close(letter)

    def _hear(self) -> None:
        assert self._line is not None
        while True:
            try:
                word = self._line.recv(_READ_BYTES)
            except BlockingIOError:
                return
            except ConnectionError:
                word = b""
            if not word:
                self._hang_up()
                return
            self._take(marshal.loads(word))

    def _take(self, said: dict[str, Any]) -> None:
        program = self._programs.get(said["id"])
        if program is None:
            return
        if "pid" in said:
            _settle(program.started, said["pid"])
        elif "failure" in said:
            _fail(program.started, MachineError(f"cannot start: {said['failure']}", kind="spawn"))
        else:
            _settle(program.ended, said["exit"])
            del self._programs[said["id"]]

    def _hang_up(self) -> None:
        assert self._line is not None
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._line.fileno())
        self._line.close()
        self._line = None
        for program in self._programs.values():
            for future in (program.started, program.ended):
                _fail(future, MachineError("the desktop went down", kind="down"))
        self._programs.clear()

    def _keeper_ended(self) -> None:
        assert self._keeper is not None and self._gone is not None
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._keeper.wait()
        if self._line is not None:
            self._hang_up()
        for stream in list(self._streams):
            self._close(stream)
        _settle(self._gone, None)

    def _listen(self, limit: int) -> tuple[_Stream, int]:
        read_fd, write_fd = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(read_fd, False)
        stream = _Stream(read_fd, limit)
        self._streams.add(stream)
        asyncio.get_running_loop().add_reader(read_fd, self._read, stream, _READ_BYTES)
        return stream, write_fd

    def _read(self, stream: _Stream, num_bytes: int) -> None:
        try:
            part = os.read(stream.fd, num_bytes)
        except BlockingIOError:
            return
        if not part:
            self._close(stream)
        elif stream.is_kept and len(stream.data) <= stream.limit:
            stream.data += part

    def _drain(self, stream: _Stream) -> None:
        """Read what is in the pipe now, not what others will write later."""
        if stream not in self._streams:
            return
        waiting = int.from_bytes(fcntl.ioctl(stream.fd, termios.FIONREAD, b"\0" * 4), sys.byteorder)
        if waiting:
            self._read(stream, waiting)

    def _close(self, stream: _Stream) -> None:
        if stream in self._streams:
            self._streams.discard(stream)
            asyncio.get_running_loop().remove_reader(stream.fd)
            os.close(stream.fd)


def text_of(result: tuple[int, bytes, bytes]) -> CommandResult:
    """How a command ended, with its output as text."""
    exit_code, out, err = result
    return CommandResult(exit_code, out.decode(errors="replace"), err.decode(errors="replace"))


def _letter(data: bytes) -> int:
    fd = os.memfd_create("letter", os.MFD_CLOEXEC)
    with os.fdopen(os.dup(fd), "wb") as file:
        file.write(data)
        file.flush()
        file.seek(0)
    return fd


def _shown(argv: Sequence[str]) -> str:
    line = " ".join(argv)
    return line if len(line) <= 120 else line[:117] + "..."


def _settle(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)


def _fail(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
        with contextlib.suppress(asyncio.CancelledError):
            future.exception()  # nobody may be waiting for this one
