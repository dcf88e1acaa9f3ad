"""Which files, processes and nets a desktop sees, as steps for its keeper.

A plan is data; the keeper carries it out. `name_plan` only gives the user a name. `room_plan`
makes a room: mounts, processes, network, IPC and host name of its own, the system read-only, a
home that lies over its template and vanishes with the room.
"""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NEWNS, NEWUTS, NEWIPC, NEWUSER = 0x00020000, 0x04000000, 0x08000000, 0x10000000
NEWPID, NEWNET = 0x20000000, 0x40000000
_NOSUID, _NODEV, _NOEXEC = 2, 4, 8

SYSTEM = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc", "opt", "var")
"""Folders of the host that are seen inside, read-only."""
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_SIZE = "4g"
"""What may lie in each of a room's file systems in memory."""

Step = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """Namespaces to make, and what to arrange in them."""

    flags: int
    steps: tuple[Step, ...]
    uid_map: str = ""
    gid_map: str = ""


def name_plan(lists: Mapping[str, Path]) -> Plan:
    """Show lists of users of our own in the place of the system's."""
    binds = tuple(("bind", target, str(source), False) for target, source in lists.items())
    return Plan(NEWNS, (("slave", "/"), *binds))


def room_plan(
    root: Path,
    *,
    home: str,
    lower: Path,
    uid: int,
    gid: int,
    shown: Mapping[str, Path],
    lists: Mapping[str, Path],
) -> Plan:
    """A room at `root`; `shown` are folders of the host that both sides write to."""
    top = str(root)
    layers = f"{top}/run/layers"
    steps: list[Step] = [
        ("slave", "/"),
        ("mount", top, "tmpfs", _NOSUID | _NODEV, "mode=755"),
        *_system(top),
        *(("bind", top + target, str(source), True) for target, source in lists.items()),
        *_devices(top),
        ("folder", f"{top}/proc", 0o555),
        ("mount", f"{top}/proc", "proc", _NOSUID | _NODEV | _NOEXEC, ""),
        *_tmpfs(f"{top}/tmp", 0o1777),
        *_tmpfs(f"{top}/var/tmp", 0o1777),
        *_tmpfs(f"{top}/run", 0o755),
        # The upper layer is on a tmpfs that has no path any more in the end.
        ("folder", layers, 0o700),
        ("mount", layers, "tmpfs", _NOSUID | _NODEV, f"mode=700,size={_SIZE}"),
        ("folder", f"{layers}/upper", 0o700),
        ("folder", f"{layers}/work", 0o700),
        ("owner", f"{layers}/upper", uid),
        ("folder", top + home, 0o700),
        (
            *("mount", top + home, "overlay", _NOSUID | _NODEV),
            f"lowerdir={lower},upperdir={layers}/upper,workdir={layers}/work"
            + (",userxattr" if os.geteuid() != 0 else ""),
        ),
        ("detach", layers),
        *(("bind", top + target, str(source), False) for target, source in shown.items()),
        ("root", top),
    ]
    flags = NEWNS | NEWUTS | NEWIPC | NEWPID | NEWNET
    if os.geteuid() == 0:
        return Plan(flags, tuple(steps))
    # Without a change of user there is nothing to own, and no right to.
    steps = [step for step in steps if step[0] != "owner"]
    return Plan(flags | NEWUSER, tuple(steps), f"{uid} {uid} 1", f"{gid} {gid} 1")


def _system(top: str) -> list[Step]:
    steps: list[Step] = []
    for name in SYSTEM:
        path = Path("/", name)
        if path.is_symlink():
            steps.append(("link", f"{top}/{name}", str(path.readlink())))
        elif path.is_dir():
            steps.append(("bind", f"{top}/{name}", str(path), True))
    return steps


def _tmpfs(path: str, mode: int) -> list[Step]:
    # The folder may be part of the system, which is read-only by now, but then it is there.
    made: list[Step] = [] if path.endswith("/var/tmp") else [("folder", path, mode)]
    return [*made, ("mount", path, "tmpfs", _NOSUID | _NODEV, f"mode={mode:o},size={_SIZE}")]


def _devices(top: str) -> list[Step]:
    return [
        *_tmpfs(f"{top}/dev", 0o755),
        *(("bind", f"{top}/dev/{name}", f"/dev/{name}", False) for name in _DEVICES),
        *_tmpfs(f"{top}/dev/shm", 0o1777),
        ("folder", f"{top}/dev/pts", 0o755),
        *[("mount", f"{top}/dev/pts", "devpts", _NOSUID | _NOEXEC, "newinstance,ptmxmode=0666")],
        ("link", f"{top}/dev/ptmx", "pts/ptmx"),
        ("link", f"{top}/dev/fd", "/proc/self/fd"),
        ("link", f"{top}/dev/stdin", "/proc/self/fd/0"),
        ("link", f"{top}/dev/stdout", "/proc/self/fd/1"),
        ("link", f"{top}/dev/stderr", "/proc/self/fd/2"),
    ]


@functools.cache
def why_no_room() -> str | None:
    """Why this machine gives us no room of our own, in a sentence; None if it does."""
    options = ["--mount", "--pid", "--net", "--ipc", "--uts", "--fork", "--mount-proc"]
    if os.geteuid() != 0:
        options = ["--user", "--map-current-user", *options]
    try:
        tried = subprocess.run(
            ["unshare", *options, "true"], check=False, capture_output=True, text=True, timeout=20
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"unshare does not run: {error}"
    if tried.returncode == 0:
        return None
    if os.geteuid() == 0:
        hint = "this container lacks the right to (CAP_SYS_ADMIN)"
    else:
        hint = "user namespaces are switched off here (sysctl kernel.unprivileged_userns_clone, "
        hint += "kernel.apparmor_restrict_unprivileged_userns or user.max_user_namespaces)"
    return f"{tried.stderr.strip()}; {hint}"
