"""A game a random byte model can learn: say something that begins with a low byte."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from practicum.core.agent import Act, Policy, Prompt, Sampling, Situation
from practicum.core.env import StepResult
from practicum.core.episode import Episode
from practicum.core.errors import EnvError
from practicum.core.message import Action, Message, Observation
from practicum.core.task import Task
from practicum.rewards.outcome import judge_outcome
from practicum.rollout.play import Limits, Slots, Table


def toy_tasks(count: int = 4) -> list[Task]:
    return [Task.create("toy", prompt=f"task {i}", data={"number": i}) for i in range(count)]


class ToyEnv:
    def __init__(self, is_broken: bool) -> None:
        self._turns = 0
        self._good = 0
        self._is_broken = is_broken

    async def start(self) -> Observation:
        return Observation("say something good")

    async def step(self, action: Action) -> StepResult:
        self._turns += 1
        self._good += action.text[:1] < "@"
        if self._is_broken and self._turns == 2:
            raise EnvError("the toy fell apart")
        is_done = self._turns == 2
        reward = self._good / 2 if is_done else 0.0
        return StepResult(
            Observation(f"turn {self._turns}"), reward, is_done, is_done and reward == 1
        )


class ToyWorld:
    id = "toy"

    def __init__(self, broken_every: int = 0) -> None:
        self._broken_every = broken_every
        self._opened = 0

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncIterator[ToyEnv]:
        self._opened += 1
        yield ToyEnv(bool(self._broken_every) and self._opened % self._broken_every == 0)


class ToyAgent:
    system = "Talk."

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    async def act(self, situation: Situation) -> Act:
        messages = [Message("system", self.system)]
        for turn in situation.history:
            messages.append(Message("user", turn.observation.text))
            messages.append(Message("assistant", turn.completion.text))
        messages.append(Message("user", situation.observation.text))
        prompt = Prompt(tuple(messages), situation)
        completion = await self._policy.complete(prompt, Sampling(max_tokens=1))
        return Act(completion, Action(completion.text))


async def judge(task: Task, episode: Episode) -> Any:
    return await judge_outcome(task, episode)


def toy_table(policy: Policy, slots: int = 8, broken_every: int = 0) -> Table:
    world: Any = ToyWorld(broken_every)
    return Table(world, ToyAgent(policy), judge_outcome, Limits(max_turns=4), Slots(slots))
