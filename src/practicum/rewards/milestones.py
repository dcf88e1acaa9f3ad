"""Dense rewards from milestones: turns are paid for the progress the world reports.

The potential of a state is the share of milestones reached by then; a turn earns the difference
it makes (Ng et al. 1999, with gamma 1). The share never falls, so nothing is taken back, and
reaching the same thing twice pays once. The verdict stays what it was: `value` and success have
no part of this, and `parts` gives both apart.
"""

from __future__ import annotations

from dataclasses import replace

from practicum.core.episode import Episode
from practicum.core.reward import Reward, RewardFn
from practicum.core.task import Task


def judge_milestones(outcome: RewardFn, weight: float) -> RewardFn:
    """Judge as `outcome` does and pay turns for milestones."""

    async def judge(task: Task, episode: Episode) -> Reward:
        verdict = await outcome(task, episode)
        dense = []
        reached = 0.0
        for turn in episode.turns:
            # A turn without an action changes nothing and reports nothing.
            now = reached if turn.progress is None else turn.progress
            dense.append(weight * (now - reached))
            reached = now
        parts = {**verdict.parts, "final": verdict.value, "milestones": reached}
        return replace(verdict, parts=parts, dense=tuple(dense))

    return judge


def pay_milestones(outcome: RewardFn, weight: float) -> RewardFn:
    """Judge as `outcome` does and pay milestones in the same number, for who takes only one.

    What is missing to a full score is paid for with up to `weight` of it: success is worth 1
    whatever was reached on the way, and no milestone makes up for it.
    """

    async def judge(task: Task, episode: Episode) -> Reward:
        verdict = await outcome(task, episode)
        told = [turn.progress for turn in episode.turns if turn.progress is not None]
        reached = told[-1] if told else 0.0
        value = verdict.value + max(0.0, 1.0 - verdict.value) * weight * reached
        parts = {**verdict.parts, "final": verdict.value, "milestones": reached}
        return replace(verdict, value=value, parts=parts)

    return judge
