"""Demonstrations: an environment's own expert plays the tasks."""

from __future__ import annotations

from collections.abc import Sequence

from practicum.agents.chat import ChatAgent
from practicum.agents.format import ActionFormat
from practicum.agents.policy_spec import make_policy
from practicum.config.eval import EndpointConfig
from practicum.core.agent import Sampling
from practicum.core.env import Environment
from practicum.core.episode import Episode
from practicum.core.errors import EnvError
from practicum.core.task import Task
from practicum.rewards.outcome import judge_outcome
from practicum.rollout.play import Attempt, Limits, Table, play_many


async def expert_episodes(
    environment: Environment,
    tasks: Sequence[Task],
    action_format: ActionFormat,
    script: str = "expert",
) -> list[Episode]:
    """Play every task once with a script; the episodes in the order of the tasks.

    Failed ones are among them. Broken ones raise, since leaving them out would change
    what is learned from without a word.
    """
    policy = make_policy(script, environment, action_format, EndpointConfig())
    agent = ChatAgent(environment, action_format, policy, Sampling())
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
