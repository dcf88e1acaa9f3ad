"""Says whether anything on a desktop is still working on what it was told.

A screen that stays the same is not yet a program that is done: on a busy host it may not have
had its turn. A program with work to do is runnable, whether it has a processor or waits for one.
"""

from __future__ import annotations

import os

_RUNNABLE = (b"R", b"D")


def is_busy(root_pid: int) -> bool:
    """Say whether a process that descends from another wants to run now."""
    parents: dict[int, int] = {}
    runnable: list[int] = []
    for name in os.listdir("/proc"):  # noqa: PTH208 - asked some thirty times a second
        if not name.isdecimal():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123 - as above
                # The name in parentheses may hold anything; the fields after it do not.
                state, parent, *_ = file.read().rpartition(b")")[2].split(None, 2)
        except (OSError, ValueError):  # it has ended
            continue
        parents[int(name)] = int(parent)
        if state in _RUNNABLE:
            runnable.append(int(name))
    return any(_descends(pid, root_pid, parents) for pid in runnable)


def _descends(pid: int, root_pid: int, parents: dict[int, int]) -> bool:
    while pid in parents:
        if pid == root_pid:
            return True
        pid = parents[pid]
    return False
