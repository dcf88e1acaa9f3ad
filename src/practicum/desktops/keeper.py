"""The process that all processes of one desktop descend from.

It starts programs as the desktop's user when it is asked to, says how they ended, and when its
owner closes the line or dies, it ends every process of the desktop and removes its files. So
nothing is left behind, whatever happens to the owner.

Run as a script by `practicum.desktops.processes`, without site-packages: it must import nothing
but the standard library, and little of that, since every desktop waits for it.
"""

# Paths are strings here: pathlib takes longer to import than all the rest.

from __future__ import annotations

import ctypes
import fcntl
import marshal
import os
import select
import signal
import socket
import sys
import time
import warnings  # noqa: F401 - `os.execvpe` would, as a user who may not read it

TYPE_CHECKING = False  # as `typing` has it, without the time it takes to import
if TYPE_CHECKING:
    from typing import Any, NoReturn

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_CLONE_NEWUTS, _CLONE_NEWUSER = 0x04000000, 0x10000000
_CLONE_NEWPID, _CLONE_NEWNET = 0x20000000, 0x40000000
_MS_RDONLY, _MS_REMOUNT, _MS_BIND, _MS_REC, _MS_SLAVE = 1, 1 << 5, 1 << 12, 1 << 14, 1 << 19
# nosuid, nodev, noexec, noatime, nodiratime: the same bits in a mount and in what statvfs tells.
_KEPT_FLAGS = 2 | 4 | 8 | 1 << 10 | 1 << 11
_MNT_DETACH = 2
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_SIOCSIFFLAGS, _IFF_UP, _IFF_RUNNING = 0x8914, 0x1, 0x40
_SHARED_FOLDERS = ("/tmp", "/tmp/.X11-unix", "/tmp/.ICE-unix", "/var/tmp", "/dev/shm")
_KILL_LIMIT_S = 10.0
# The end of the owner is the only end, so that what is cleared away is all there was.
_DEAF_TO = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_libc = ctypes.CDLL(None, use_errno=True)


class _InsideEndedError(Exception):
    """The first process inside the namespaces has ended, and so have all others there."""


class Keeper:
    """Starts, reaps and ends the processes of one desktop."""

    def __init__(self, line: socket.socket, owner: int, spec: dict[str, Any]) -> None:
        self._line = line
        self._owner = owner
        """A pidfd: readable once the owner has ended."""
        self._uid: int | None = spec["uid"]
        """The user to become; None to stay who we are."""
        self._owned: int | None = spec["uid"] if spec["owns_uid"] else None
        """That user, if all their processes and files are this desktop's."""
        self._remove: list[str] = spec["remove"]
        self._remove_if_orphaned: list[str] = spec["remove_if_orphaned"]
        self.is_orphaned = True
        """Whether the owner ended without a word."""
        self._is_inside = False
        self._ids: dict[int, int] = {}
        """By process id, the number under which the owner knows a program."""

    def serve(self) -> None:
        """Answer the owner until it is gone."""
        wake_r, wake_w = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake_w, warn_on_full_buffer=False)
        poll = select.poll()
        for fd in (self._line.fileno(), self._owner, wake_r):
            poll.register(fd, select.POLLIN | select.POLLHUP)
        while True:
            for fd, _ in poll.poll():
                if fd == wake_r:
                    os.read(wake_r, 4096)
                    self._reap()
                elif fd == self._owner or not self._answer():
                    return

    def _answer(self) -> bool:
        """Carry out one request; False if nobody asks any more."""
        try:
            word, fds, _, _ = socket.recv_fds(self._line, 16, 16)
        except ConnectionError:
            return False
        if not word:
            return False
        with os.fdopen(fds[0], "rb") as letter:
            letter.seek(0)
            request = marshal.load(letter)
        if request["op"] == "spawn":
            self._spawn(request, fds[1:])
        elif request["op"] == "kill":
            for pid, number in self._ids.items():
                if number == request["id"]:
                    _signal_group(pid)
        elif request["op"] == "enter":
            self._enter(request)
        elif request["op"] == "remove":
            self._remove += request["paths"]
        elif request["op"] == "end":
            self.is_orphaned = False
            return False
        for fd in fds[1:]:
            os.close(fd)
        return True

    def _enter(self, request: dict[str, Any]) -> None:
        """Move into namespaces of our own, and arrange the files there."""
        try:
            # What stays outside must see the host's files to remove them, so it goes no further.
            first = request["flags"] & (_CLONE_NEWUSER | _CLONE_NEWPID)
            if first:
                _leave_for(first)
            if first & _CLONE_NEWUSER:
                _map_user(request["uid_map"], request["gid_map"])
            if first & _CLONE_NEWPID:
                self._split()
            _leave_for(request["flags"] & ~first)
            if request["flags"] & _CLONE_NEWNET:
                _raise_loopback()
            if request["flags"] & _CLONE_NEWUTS:
                socket.sethostname("desktop")
            for step in request["steps"]:
                _arrange(*step)
        except OSError as error:
            self._say(id=request["id"], failure=str(error))
        else:
            self._say(id=request["id"], pid=os.getpid())

    def _split(self) -> None:
        """Go on as the first process of the new namespace; what stays outside only waits.

        The kernel ends all processes in there when the first one ends.
        """
        pid = os.fork()
        if pid == 0:
            _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            self._is_inside = True
            return
        self._line.close()
        poll = select.poll()
        poll.register(os.pidfd_open(pid), select.POLLIN)
        poll.register(self._owner, select.POLLIN)
        poll.poll()
        _signal(pid)
        _, status = os.waitpid(pid, 0)
        self.is_orphaned = os.waitstatus_to_exitcode(status) != 0
        raise _InsideEndedError

    def _say(self, **words: object) -> None:
        try:
            self._line.send(marshal.dumps(words))
        except OSError:
            return  # the owner is gone: the next poll says so

    def _spawn(self, request: dict[str, Any], fds: list[int]) -> None:
        failed_r, failed_w = os.pipe2(os.O_CLOEXEC)
        pid = os.fork()
        if pid == 0:
            self._become(request, fds, failed_w)
        os.close(failed_w)
        with os.fdopen(failed_r, "rb") as pipe:
            failure = pipe.read()
        if failure:
            os.waitpid(pid, 0)
            self._say(id=request["id"], failure=failure.decode())
            return
        self._ids[pid] = request["id"]
        self._say(id=request["id"], pid=pid)

    def _become(self, request: dict[str, Any], fds: list[int], failed: int) -> NoReturn:
        """In the child: turn into the program. Never returns."""
        try:
            os.setsid()
            # Above the numbers they will get, so that none is overwritten before it is moved.
            moved = [_dup_above(fd, 64) for fd in fds]
            failed = _dup_above(failed, 64)
            if self._uid is not None:
                os.setgroups([])
                os.setresgid(self._uid, self._uid, self._uid)
                os.setresuid(self._uid, self._uid, self._uid)
            # After the change of user, which clears it. The owner may be in another namespace.
            _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            for place, fd in enumerate(moved):
                os.dup2(fd, place)
            signal.set_wakeup_fd(-1)
            for number in (*_DEAF_TO, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(number, signal.SIG_DFL)
            os.umask(0o022)
            os.chdir(request["cwd"])
            os.execvpe(request["argv"][0], request["argv"], request["env"])
        except OSError as error:
            os.write(failed, str(error).encode())
        except BaseException as error:  # noqa: BLE001 - this is a fork: nobody else would tell
            os.write(failed, repr(error).encode())
        os._exit(127)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            number = self._ids.pop(pid, None)
            if number is not None:
                self._say(id=number, exit=os.waitstatus_to_exitcode(status))

    def clear(self) -> None:
        """End every process of the desktop and remove its files."""
        if self._is_inside:
            os._exit(self.is_orphaned)  # the kernel does the rest
        signal.set_wakeup_fd(-1)
        deadline = time.monotonic() + _KILL_LIMIT_S
        while time.monotonic() < deadline:
            victims = _of_user(self._owned) if self._owned is not None else _descendants()
            if not victims:
                break
            for pid in victims:
                _signal(pid)
            while _wait_for_one():
                pass
            time.sleep(0.002)
        while time.monotonic() < deadline and _wait_for_one():
            pass
        for path in [*self._remove, *(self._remove_if_orphaned if self.is_orphaned else ())]:
            _delete(path)
        if self._owned is not None:
            _sweep(self._owned)


def _leave_for(flags: int) -> None:
    if _libc.unshare(flags) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"the kernel gives no namespaces: {os.strerror(error)}")


def _map_user(uid_map: str, gid_map: str) -> None:
    for name, text in (("setgroups", "deny"), ("uid_map", uid_map), ("gid_map", gid_map)):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def _raise_loopback() -> None:
    request = b"lo".ljust(16, b"\0") + (_IFF_UP | _IFF_RUNNING).to_bytes(2, sys.byteorder)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, request.ljust(40, b"\0"))


def _arrange(kind: str, path: str, *rest: Any) -> None:
    """One step on the way to the files that the desktop sees."""
    if kind == "folder":
        os.makedirs(path, exist_ok=True)
        os.chmod(path, rest[0])
    elif kind == "owner":
        os.chown(path, rest[0], rest[0])
    elif kind == "link":
        os.symlink(rest[0], path)
    elif kind == "bind":
        _bind(path, *rest)
    elif kind == "mount":
        _mount(rest[0], path, rest[0], rest[1], rest[2])
    elif kind == "detach":
        if _libc.umount2(path.encode(), _MNT_DETACH) != 0:
            raise OSError(ctypes.get_errno(), f"cannot detach {path}")
    elif kind == "slave":
        _mount(None, path, None, _MS_REC | _MS_SLAVE)
    elif kind == "root":
        os.chdir(path)
        # With both arguments the same, the old root is stacked under the new one.
        if _libc.syscall(_PIVOT_ROOT[os.uname().machine], b".", b".") != 0:
            error = ctypes.get_errno()
            raise OSError(error, f"cannot change the root folder: {os.strerror(error)}")
        _arrange("detach", ".")
        os.chdir("/")


def _bind(path: str, source: str, is_read_only: bool) -> None:
    if os.path.isdir(source):
        os.makedirs(path, exist_ok=True)
    elif not os.path.exists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))
    _mount(source, path, None, _MS_BIND | _MS_REC)
    if is_read_only:
        # What is forbidden already must stay so, or the kernel refuses.
        kept = os.statvfs(path).f_flag & _KEPT_FLAGS
        _mount(None, path, None, _MS_BIND | _MS_REMOUNT | _MS_RDONLY | kept)


def _mount(source: str | None, path: str, kind: str | None, flags: int, data: str = "") -> None:
    words = [word.encode() if word else None for word in (source, path, kind)]
    if _libc.mount(*words, ctypes.c_ulong(flags), data.encode() or None) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"cannot mount {kind or source} on {path}: {os.strerror(error)}")


def _wait_for_one() -> bool:
    try:
        return os.waitpid(-1, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return False


def _dup_above(fd: int, least: int) -> int:
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, least)


def _signal(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _signal_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _of_user(uid: int) -> list[int]:
    """Processes of a user that still live; zombies wait for their parent, who is among them."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            if os.stat(f"/proc/{name}").st_uid == uid and _state(name)[0] != "Z":
                found.append(int(name))
        except OSError:
            continue
    return found


def _descendants() -> list[int]:
    """All processes below this one, the deepest last."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            state, parent = _state(name)
        except OSError:
            continue
        if state != "Z":
            children.setdefault(parent, []).append(int(name))
    found: list[int] = []
    front = [os.getpid()]
    while front:
        front = [child for pid in front for child in children.get(pid, ())]
        found += front
    return found


def _state(pid: str) -> tuple[str, int]:
    with open(f"/proc/{pid}/stat", "rb") as file:
        # The name in brackets may hold anything, brackets too.
        fields = file.read().rpartition(b")")[2].split()
    return fields[0].decode(), int(fields[1])


def _sweep(uid: int) -> None:
    """Remove what a user left where everybody may write."""
    import subprocess

    for folder in _SHARED_FOLDERS:
        try:
            entries = list(os.scandir(folder))
        except OSError:
            continue
        for entry in entries:
            try:
                is_theirs = entry.stat(follow_symlinks=False).st_uid == uid
            except OSError:
                continue
            if is_theirs:
                _delete(entry.path)
    for kind, option in (("shm", "-m"), ("sem", "-s"), ("msg", "-q")):
        try:
            with open(f"/proc/sysvipc/{kind}") as file:
                lines = [line.split() for line in file]
        except OSError:
            continue
        owner = lines[0].index("uid")
        for line in lines[1:]:
            if line[owner] == str(uid):
                subprocess.run(["ipcrm", option, line[1]], check=False, capture_output=True)


def _delete(path: str) -> None:
    import shutil

    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        try:
            os.unlink(path)
        except OSError:
            return


def main() -> None:
    """Serve the owner whose socket and pidfd are the first two arguments."""
    line = socket.socket(fileno=int(sys.argv[1]))
    owner = int(sys.argv[2])
    for fd in (line.fileno(), owner):
        os.set_inheritable(fd, False)
    for number in _DEAF_TO:
        signal.signal(number, signal.SIG_IGN)
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    keeper = Keeper(line, owner, marshal.loads(bytes.fromhex(sys.argv[3])))
    try:
        keeper.serve()
    except _InsideEndedError:
        pass
    finally:
        keeper.clear()


if __name__ == "__main__":
    main()
