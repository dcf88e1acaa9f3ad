"""TextCraft that breaks: `broken_worlds.py:create` as an environment's id."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from practicum.core.env import Env, StepResult
from practicum.core.message import Action, Observation
from practicum.core.task import Task
from practicum.envs.registry import load_env


class BreakingEnv:
    """One episode that breaks at a turn."""

    def __init__(self, env: Env, at_turn: int) -> None:
        self._env = env
        self._left = at_turn

    async def start(self) -> Observation:
        return await self._env.start()

    async def step(self, action: Action) -> StepResult:
        if self._left == 0:
            raise ConnectionError("the world is gone")
        self._left -= 1
        return await self._env.step(action)


class BreakingWorld:
    """TextCraft of whose episodes every n-th breaks."""

    def __init__(self, at_turn: int, every: int) -> None:
        self._inner = load_env("textcraft")
        self._at_turn = at_turn
        self._every = every
        self._num_opened = 0
        self.num_open = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncIterator[Env]:
        self._num_opened += 1
        self.num_open += 1
        try:
            async with self._inner.open(task) as env:
                is_sound = self._num_opened % self._every
                yield env if is_sound else BreakingEnv(env, self._at_turn)
        finally:
            self.num_open -= 1


def create(at_turn: int = 1, every: int = 1) -> BreakingWorld:
    return BreakingWorld(at_turn, every)
