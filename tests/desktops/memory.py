"""Machines without a screen, to test who holds what and for how long."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field
from typing import cast

from practicum.core.errors import MachineError
from practicum.desktops.computer import Computer


@dataclass(eq=False)
class MemoryMachine:
    """A machine that only remembers what was done to it."""

    id: str
    faults: dict[str, Exception] = field(default_factory=dict)
    """What `start`, `reset`, `check` or `stop` raises."""
    log: list[str] = field(default_factory=list)
    is_up: bool = False
    dirt: str = ""
    """What the last user left."""

    @property
    def computer(self) -> Computer:
        return cast(Computer, self)

    async def start(self) -> None:
        await self._do("start")
        self.is_up = True

    async def reset(self) -> None:
        await self._do("reset")
        self.dirt = ""

    async def check(self) -> None:
        await self._do("check")
        if not self.is_up:
            raise MachineError(f"{self.id} is down", kind="x-server")

    async def stop(self) -> None:
        await self._do("stop")
        self.is_up = False

    async def _do(self, what: str) -> None:
        self.log.append(what)
        await asyncio.sleep(0)
        if what in self.faults:
            raise self.faults[what]


class Factory:
    """Makes machines and keeps them for the test to look at."""

    def __init__(self, *faults: dict[str, Exception]) -> None:
        self.machines: list[MemoryMachine] = []
        self._faults = itertools.chain(faults, itertools.repeat({}))

    def __call__(self) -> MemoryMachine:
        machine = MemoryMachine(f"m{len(self.machines)}", dict(next(self._faults)))
        self.machines.append(machine)
        return machine

    @property
    def up(self) -> list[str]:
        return [machine.id for machine in self.machines if machine.is_up]
