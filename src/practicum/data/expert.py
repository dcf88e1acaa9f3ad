"""Demonstrations: an environment's own expert plays the tasks."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from random import Random

from practicum.agents.chat import ChatAgent
from practicum.agents.format import ActionFormat
from practicum.core.agent import Sampling, Situation
from practicum.core.canonical import stable_seed
from practicum.core.env import Decision, Environment, Script
from practicum.core.episode import Episode
from practicum.core.errors import ConfigError, EnvError, unknown_name
from practicum.core.task import Task
from practicum.policies.scripted import ScriptedPolicy
from practicum.rewards.outcome import judge_outcome
from practicum.rollout.play import Attempt, Limits, Table, play_many


@dataclass(frozen=True)
class Slips:
    """Turns at which another script plays; the same ones every time."""

    rate: float
    script: str
    seed: int

    def falls_on(self, task_id: str, turn: int) -> bool:
        """Whether the other script plays this turn, counted from 0."""
        return Random(stable_seed(self.seed, "slip", task_id, turn)).random() < self.rate


@dataclass(frozen=True)
class Thoughts:
    """Games whose player says what it thinks; in the others it only acts. Always the same ones."""

    share: float
    seed: int

    def are_told(self, task_id: str) -> bool:
        """Whether they are in the game of this task."""
        return Random(stable_seed(self.seed, "thoughts", task_id)).random() < self.share


async def expert_episodes(
    environment: Environment,
    tasks: Sequence[Task],
    action_format: ActionFormat,
    script: str = "expert",
    slips: Slips | None = None,
    thoughts: Thoughts | None = None,
    num_workers: int = 1,
) -> list[Episode]:
    """Play every task once with a script; the episodes in the order of the tasks.

    Failed ones are among them. Broken ones raise, since leaving them out would change
    what is learned from without a word. With several workers each is a process of its own.
    """
    if num_workers > 1 and len(tasks) > 1:
        settings = (action_format, script, slips, thoughts)
        return await _shared_out(num_workers, environment, tasks, settings)

    def render(decision: Decision) -> str:
        return action_format.render(decision, environment.commands)

    play = find_script(environment, script)
    if slips is not None:
        play = _slipping(play, find_script(environment, slips.script), slips)
    if thoughts is not None:
        play = _telling(play, thoughts)
    agent = ChatAgent(environment, action_format, ScriptedPolicy(play, render), Sampling())
    table = Table(environment, agent, judge_outcome, Limits(environment.max_turns))
    played: dict[str, Episode] = {}

    def keep(episode: Episode) -> None:
        played[episode.task_id] = episode

    await play_many(table, [Attempt(task) for task in tasks], keep)
    episodes = [played[task.id] for task in tasks]
    broken = [(e.task_id, e.error.message) for e in episodes if e.error is not None]
    if broken:
        raise EnvError(
            f"{len(broken)} of {len(episodes)} demonstrations broke, first {broken[0][0]}: "
            f"{broken[0][1]}; run practicum check {environment.id}"
        )
    return episodes


_Settings = tuple[ActionFormat, str, Slips | None, Thoughts | None]


async def _shared_out(
    num_workers: int, environment: Environment, tasks: Sequence[Task], settings: _Settings
) -> list[Episode]:
    try:
        pickle.dumps((environment, settings))
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        raise ConfigError(
            f"{environment.id} cannot be sent to other processes ({error}): "
            "set demonstrations.workers=1"
        ) from error
    count = min(num_workers, len(tasks))
    loop = asyncio.get_running_loop()
    episodes: list[Episode | None] = [None] * len(tasks)
    # Spawned: a fork of a process that uses a GPU or threads may hang.
    with ProcessPoolExecutor(count, mp_context=get_context("spawn")) as pool:
        parts = [
            loop.run_in_executor(pool, _play_part, environment, tasks[i::count], settings)
            for i in range(count)
        ]
        try:
            for i, part in enumerate(await asyncio.gather(*parts)):
                episodes[i::count] = part
        except BrokenExecutor as error:
            raise EnvError(
                "a process that played demonstrations died, for want of memory perhaps: "
                "lower demonstrations.workers"
            ) from error
    return [episode for episode in episodes if episode is not None]


def _play_part(
    environment: Environment, tasks: Sequence[Task], settings: _Settings
) -> list[Episode]:
    return asyncio.run(expert_episodes(environment, tasks, *settings))


def find_script(environment: Environment, name: str) -> Script:
    """A programmed player of the environment."""
    if name not in environment.scripts:
        raise unknown_name(f"script of {environment.id}", name, list(environment.scripts))
    return environment.scripts[name]


def _slipping(expert: Script, other: Script, slips: Slips) -> Script:
    def play(situation: Situation) -> Decision:
        is_slip = slips.falls_on(situation.task.id, len(situation.history))
        return (other if is_slip else expert)(situation)

    return play


def _telling(script: Script, thoughts: Thoughts) -> Script:
    def play(situation: Situation) -> Decision:
        decision = script(situation)
        is_told = thoughts.are_told(situation.task.id)
        return decision if is_told else replace(decision, thought="")

    return play
