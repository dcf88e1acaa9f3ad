"""Says whether anything on a desktop is still working on what it was told.

A screen that stays the same is not yet a program that is done: on a busy host it may not have
had its turn. A thread with work to do is runnable, whether it has a processor or waits for one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

_RUNNABLE = (b"R", b"D")


def is_busy(root_pid: int) -> bool:
    """Say whether a thread of a process that descends from another wants to run now."""
    children: dict[int, list[int]] = {}
    for pid, _, parent in _stats("/proc"):
        children.setdefault(parent, []).append(pid)
    family = [root_pid]
    for pid in family:  # grows while it is walked over
        family += children.get(pid, ())
    return any(state in _RUNNABLE for pid in family for _, state, _ in _stats(f"/proc/{pid}/task"))


def _stats(folder: str) -> Iterator[tuple[int, bytes, int]]:
    """Number, state and parent of the processes or threads in a folder."""
    try:
        names = os.listdir(folder)  # noqa: PTH208 - asked some thirty times a second
    except OSError:  # it has ended
        return
    for name in names:
        if not name.isdecimal():
            continue
        try:
            with open(f"{folder}/{name}/stat", "rb") as file:  # noqa: PTH123 - as above
                # The name in parentheses may hold anything; the fields after it do not.
                state, parent, *_ = file.read().rpartition(b")")[2].split(None, 2)
        except (OSError, ValueError):  # it has ended
            continue
        yield int(name), state, int(parent)
