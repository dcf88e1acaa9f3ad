"""Lets the episodes of a group know of each other: how many were judged, how many broke.

verl plays the members of a group in one process and learns from a group once all of them have
ended, so waiting for the last one costs nothing. It starts all of them together, so whoever has
joined when the event loop has gone round once is all there is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class _Group:
    num_members: int = 0
    num_judged: int = 0
    num_broken: int = 0
    is_over: asyncio.Event = field(default_factory=asyncio.Event)

    def leave(self, is_judged: bool) -> None:
        self.num_judged += is_judged
        self.num_broken += not is_judged
        if self.num_judged + self.num_broken == self.num_members:
            self.is_over.set()


class Membership:
    """One episode of a group."""

    def __init__(self, group: _Group) -> None:
        self._group = group
        self._has_left = False
        group.num_members += 1

    def leave(self, *, is_judged: bool) -> None:
        """Say how the episode ended; only the first word counts."""
        if not self._has_left:
            self._has_left = True
            self._group.leave(is_judged)

    async def outcome(self) -> tuple[int, int]:
        """Wait for the whole group: how many were judged, how many broke."""
        await self._group.is_over.wait()
        return self._group.num_judged, self._group.num_broken


class Groups:
    """The groups under way in this process."""

    def __init__(self) -> None:
        self._open: dict[str, _Group] = {}

    @contextmanager
    def join(self, key: str) -> Iterator[Membership]:
        """Be a member until the block ends, however it ends."""
        group = self._open.setdefault(key, _Group())
        member = Membership(group)
        try:
            yield member
        finally:
            member.leave(is_judged=False)
            if group.is_over.is_set():
                self._open.pop(key, None)
