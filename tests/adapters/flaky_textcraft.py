"""TextCraft whose episodes break as planned."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from practicum.core.env import Env, StepResult
from practicum.core.errors import EnvError
from practicum.core.message import Action, Observation
from practicum.core.task import Task
from practicum.envs.registry import load_env


class _BreakingEnv:
    """Falls apart at its second step."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._steps = 0

    async def start(self) -> Observation:
        return await self._env.start()

    async def step(self, action: Action) -> StepResult:
        self._steps += 1
        if self._steps == 2:
            raise EnvError("the world fell apart", kind="lost-session")
        return await self._env.step(action)


class FlakyTextCraft:
    """Breaks the episodes whose number, from 0, has one of the remainders."""

    def __init__(self, modulus: int, remainders: list[int]) -> None:
        self._inner = load_env("textcraft")
        self._modulus = modulus
        self._remainders = remainders
        self._numbers = count()
        self.num_open = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncIterator[Any]:
        is_broken = next(self._numbers) % self._modulus in self._remainders
        self.num_open += 1
        try:
            async with self._inner.open(task) as env:
                yield _BreakingEnv(env) if is_broken else env
        finally:
            self.num_open -= 1


def create(modulus: int, remainders: list[int]) -> FlakyTextCraft:
    return FlakyTextCraft(modulus, remainders)
