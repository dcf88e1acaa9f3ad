"""TextWorld's planning engine in processes of its own.

The engine is slow Python over a C library with global state, it swaps `sys.stdout` while it
loads, and a crash in it ends the process. So every worker process plays the games of a few
episodes one call at a time, and what comes back is plain data.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeVar

from practicum.core.errors import EnvError, MachineError
from practicum.core.spawned import spawned
from practicum.envs.text.alfworld.language import without_banner

MAX_WORKERS = 4
"""Each takes about 200 MB; further episodes share them."""

Result = TypeVar("Result")
Shown = tuple[str, list[str], bool]
"""What the engine says, which commands it takes next, whether the goal is reached."""


@dataclass(eq=False, slots=True)
class Worker:
    """A process that plays games, and how many it has open."""

    executor: ProcessPoolExecutor = field(default_factory=lambda: spawned(1))
    num_open: int = 0
    is_dead: bool = False

    async def call(self, function: Callable[..., Result], *args: Any) -> Result:
        """Run one engine call in the process."""
        try:
            return await asyncio.wrap_future(self.executor.submit(function, *args))
        except BrokenExecutor as error:
            self.is_dead = True
            raise MachineError(
                "the process that ran TextWorld's engine died; the next episode gets a new one",
                kind="engine-died",
            ) from error
        except Exception as error:
            raise EnvError(f"TextWorld failed: {type(error).__name__}: {error}") from error


class Workers:
    """Starts worker processes when episodes need them, and ends them all."""

    def __init__(self, max_workers: int | None = None) -> None:
        self._max_workers = max_workers or min(MAX_WORKERS, os.cpu_count() or 1)
        self._workers: list[Worker] = []
        self._keys = count()

    @asynccontextmanager
    async def open(self, content: Mapping[str, Any]) -> AsyncIterator[OpenGame]:
        """Load a game in the least busy worker; leaving the context unloads it."""
        worker = self._pick()
        worker.num_open += 1
        key = next(self._keys)
        try:
            shown = await worker.call(_open, key, dict(content))
            yield OpenGame(worker, key, shown)
        finally:
            worker.num_open -= 1
            # Not awaited: the worker does it after whatever it is at, also when cancelled.
            with suppress(BrokenExecutor, RuntimeError):
                worker.executor.submit(_close, key)

    def _pick(self) -> Worker:
        self._workers = [worker for worker in self._workers if not worker.is_dead]
        idle = min(self._workers, key=lambda worker: worker.num_open, default=None)
        if idle is not None and (idle.num_open == 0 or len(self._workers) >= self._max_workers):
            return idle
        self._workers.append(Worker())
        return self._workers[-1]

    async def aclose(self) -> None:
        """End all workers."""
        workers, self._workers = self._workers, []
        for worker in workers:
            await asyncio.to_thread(worker.executor.shutdown)


@dataclass(frozen=True, slots=True)
class OpenGame:
    """A loaded game: what it showed first, and how to go on."""

    worker: Worker
    key: int
    first: Shown

    async def step(self, command: str) -> Shown:
        """Carry out a command."""
        return await self.worker.call(_step, self.key, command)


# What follows runs in the worker process.

_games: dict[int, Any] = {}
_idle: list[Any] = []
"""Engines without a game. They are used again: unloading their library crashes the process."""


def _open(key: int, content: Mapping[str, Any]) -> Shown:
    from textworld import EnvInfos
    from textworld.envs import PddlEnv

    infos = EnvInfos(won=True, admissible_commands=True)
    engine = _idle.pop() if _idle else PddlEnv(infos)
    engine.load(content)
    _give_names(engine._entity_infos)
    _games[key] = engine
    state = engine.reset()
    return without_banner(state["feedback"]), state["admissible_commands"], bool(state["won"])


def _step(key: int, command: str) -> Shown:
    state, _, _ = _games[key].step(command)
    return state["feedback"], state["admissible_commands"], bool(state["won"])


def _close(key: int) -> None:
    if engine := _games.pop(key, None):
        engine.downward_lib.cleanup()
        _idle.append(engine)


def _give_names(infos: Mapping[str, Any]) -> None:
    """Name things as ALFWorld does: by kind, numbered downwards in order of their ids."""
    counts: dict[str, int] = {}
    for thing_id in sorted(infos, reverse=True):
        stem, is_thing, rest = thing_id.partition("_bar_")
        if is_thing:
            word = f"{stem}basin" if "basin" in rest else stem
            counts[word] = counts.get(word, 0) + 1
            infos[thing_id].name = f"{word} {counts[word]}"
