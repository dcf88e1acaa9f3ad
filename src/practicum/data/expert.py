"""Demonstrations: an environment's own expert plays the tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from practicum.agents.chat import ChatAgent
from practicum.agents.format import ActionFormat
from practicum.core.agent import Sampling, Situation
from practicum.core.canonical import stable_seed
from practicum.core.env import Decision, Environment, Script
from practicum.core.episode import Episode
from practicum.core.errors import EnvError, unknown_name
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
) -> list[Episode]:
    """Play every task once with a script; the episodes in the order of the tasks.

    Failed ones are among them. Broken ones raise, since leaving them out would change
    what is learned from without a word.
    """

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
