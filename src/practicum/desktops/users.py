"""One user per desktop, when we are root.

Such a user is a number that nobody else has, held by a file lock, and gets its name by a list of
users that only the desktop sees. Where root may not do that, as in a container with few rights,
all desktops share the user `nobody`; when we are not root, ours.
"""

from __future__ import annotations

import fcntl
import functools
import os
import pwd
import subprocess
from dataclasses import dataclass
from pathlib import Path

from practicum.core.errors import MachineError

# Debian leaves these to be given out on request; small enough for a container's 65,536 users.
FIRST_UID, LAST_UID = 64_100, 64_899
_LOCKS = Path("/run/practicum/users")


@dataclass(frozen=True, slots=True)
class User:
    """The user that a desktop's programs run as."""

    uid: int
    lock_fd: int | None = None
    """Open for as long as the user is in use."""

    @property
    def is_exclusive(self) -> bool:
        """Whether no other desktop has the same."""
        return self.lock_fd is not None

    def give_back(self) -> None:
        """Let others have it; the keeper may still hold the lock."""
        if self.lock_fd is not None:
            os.close(self.lock_fd)


def take_user() -> User | None:
    """A user for a desktop; None for our own, when we are not root."""
    if os.geteuid() != 0:
        return None
    if not may_mount():
        return User(pwd.getpwnam("nobody").pw_uid)
    _LOCKS.mkdir(parents=True, exist_ok=True, mode=0o700)
    for uid in range(FIRST_UID, LAST_UID + 1):
        lock_fd = os.open(_LOCKS / str(uid), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock_fd)
            continue
        if not _has_name(uid):
            return User(uid, lock_fd)
        os.close(lock_fd)
    raise MachineError(
        f"all users from {FIRST_UID} to {LAST_UID} are in use: take some desktops down",
        kind="capacity",
    )


@functools.cache
def may_mount() -> bool:
    """Whether this process may give others a view of files of their own."""
    tried = subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True)
    return tried.returncode == 0


def _has_name(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True
