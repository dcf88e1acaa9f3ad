"""Demonstrations: an environment's own expert plays the tasks."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass, replace
from random import Random

from practicum.agents.chat import ChatAgent
from practicum.agents.format import ActionFormat
from practicum.core.agent import Sampling, Situation
from practicum.core.canonical import stable_seed
from practicum.core.env import Decision, Environment, Script
from practicum.core.episode import Episode
from practicum.core.errors import ConfigError, EnvError, unknown_name
from practicum.core.spawned import spawned
from practicum.core.task import Task
from practicum.policies.scripted import ScriptedPolicy
from practicum.rewards.outcome import judge_outcome
from practicum.rollout.play import Attempt, Limits, Table, play_many

PART_SIZE = 32
"""Tasks that a process is handed at once."""


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


_Cast = tuple[Environment, ActionFormat, str, Slips | None, Thoughts | None]
"""Where is played, and who plays how."""


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
    what is learned from without a word. Several workers are processes of their own.
    """
    cast = (environment, action_format, script, slips, thoughts)
    if num_workers > 1:
        episodes = await _play_apart(num_workers, cast, tasks)
    else:
        episodes = await _play(*cast, tasks)
    broken = [(e.task_id, e.error.message) for e in episodes if e.error is not None]
    if broken:
        raise EnvError(
            f"{len(broken)} of {len(episodes)} demonstrations broke, first {broken[0][0]}: "
            f"{broken[0][1]}; run practicum check {environment.id}"
        )
    return episodes


async def _play(
    environment: Environment,
    action_format: ActionFormat,
    script: str,
    slips: Slips | None,
    thoughts: Thoughts | None,
    tasks: Sequence[Task],
) -> list[Episode]:
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
    return [played[task.id] for task in tasks]


async def _play_apart(num_workers: int, cast: _Cast, tasks: Sequence[Task]) -> list[Episode]:
    """Hand parts of the tasks to processes as they come free."""
    environment = cast[0]
    try:
        packed = pickle.dumps(cast)
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        raise _not_sent(environment.id, error) from error
    parts = [tasks[i : i + PART_SIZE] for i in range(0, len(tasks), PART_SIZE)]
    loop = asyncio.get_running_loop()
    pool = spawned(min(num_workers, len(parts)))
    try:
        played = await asyncio.gather(
            *(loop.run_in_executor(pool, _play_part, environment.id, packed, p) for p in parts)
        )
    except BrokenExecutor as error:
        raise EnvError(
            "a process that played demonstrations died, for want of memory perhaps: "
            "lower demonstrations.workers"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)  # what is under way takes a moment
    return [episode for part in played for episode in part]


def _play_part(env_id: str, packed: bytes, tasks: Sequence[Task]) -> list[Episode]:
    """In a process of its own, which may not know the environment's code."""
    try:
        cast: _Cast = pickle.loads(packed)
    except (ImportError, AttributeError) as error:
        raise _not_sent(env_id, error) from error
    return asyncio.run(_play(*cast, tasks))


def _not_sent(env_id: str, error: Exception) -> ConfigError:
    return ConfigError(
        f"{env_id} cannot be sent to other processes ({error}): set demonstrations.workers=1"
    )


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
