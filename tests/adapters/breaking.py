"""TextCraft whose worlds break when they are told to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from practicum.core.env import Env, Environment, StepResult
from practicum.core.errors import MachineError
from practicum.core.message import Action, Observation
from practicum.core.task import Task
from practicum.envs.registry import load_env


class _Breaking:
    """Delegates to TextCraft; the worlds opened first are those that break."""

    def __init__(self, broken_opens: int, broken_steps: int, first_chars: int) -> None:
        self._environment: Environment = load_env("textcraft")
        self._broken_opens = broken_opens
        self._broken_steps = broken_steps
        self._first_chars = first_chars
        self._num_opened = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._environment, name)

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncIterator[Env]:
        self._num_opened += 1
        number = self._num_opened
        if number <= self._broken_opens:
            raise MachineError("no world came up", kind="start")
        async with self._environment.open(task) as env:
            yield _World(env, self._broken_opens < number <= self._steps_end, self._first_chars)

    @property
    def _steps_end(self) -> int:
        return self._broken_opens + self._broken_steps


class _World:
    def __init__(self, env: Env, breaks: bool, first_chars: int) -> None:
        self._env = env
        self._breaks = breaks
        self._first_chars = first_chars

    async def start(self) -> Observation:
        first = await self._env.start()
        return Observation(first.text + " so" * (self._first_chars // 3), first.images)

    async def step(self, action: Action) -> StepResult:
        if self._breaks:
            raise MachineError("the world is gone", kind="gone")
        return await self._env.step(action)


def create(name: str, broken_opens: int = 0, broken_steps: int = 0, first_chars: int = 0) -> Any:
    """So many worlds do not open, so many break at a step; and first observations are longer.

    Environments are kept by their options: one with another name counts from the start.
    """
    del name
    return _Breaking(broken_opens, broken_steps, first_chars)
