"""The environment's own verdict."""

from __future__ import annotations

from practicum.core.episode import Episode
from practicum.core.reward import Reward
from practicum.core.task import Task


async def judge_outcome(task: Task, episode: Episode) -> Reward:  # noqa: ARG001
    """Add up what the turns earned; success is what the environment reported."""
    return Reward(value=sum(turn.reward for turn in episode.turns), is_success=episode.is_success)
