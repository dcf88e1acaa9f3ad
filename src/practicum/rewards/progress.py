"""Dense rewards: turns are paid for what they bring the expert nearer to the goal.

The potential of a state is the share of the way that is done, by the expert's own count of
turns: 0 at the start, 1 at the goal, below 0 after a step into the wrong direction. A turn
earns the difference it makes, so no detour pays (Ng et al. 1999, with gamma 1). The last state
keeps its worth, where their proof would take it back: of two episodes that fail, the one that
got further is the better one, which is all there is to learn from while nothing succeeds.
Dense rewards are kept apart from the outcome: no success rate and no mean reward has them.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from practicum.core.agent import Situation
from practicum.core.env import Guided
from practicum.core.episode import Episode
from practicum.core.reward import Reward, RewardFn
from practicum.core.task import Task


def judge_progress(outcome: RewardFn, guide: Guided, weight: float) -> RewardFn:
    """Judge as `outcome` does and pay turns for progress."""

    async def judge(task: Task, episode: Episode) -> Reward:
        verdict = await outcome(task, episode)
        done = [_share_done(guide, task, episode, turn) for turn in range(len(episode.turns) + 1)]
        dense = tuple(weight * (after - before) for before, after in pairwise(done))
        return replace(verdict, dense=dense)

    return judge


def _share_done(guide: Guided, task: Task, episode: Episode, turn: int) -> float:
    """The potential before a turn; that of the goal is 1."""
    if turn == len(episode.turns) and episode.is_success:
        return 1.0
    turns = episode.turns
    observation = turns[turn].observation if turn < len(turns) else episode.final
    if observation is None or not turns:
        return 0.0
    start = guide.remaining(Situation(task, episode.sample, (), turns[0].observation, 0))
    here = guide.remaining(Situation(task, episode.sample, turns[:turn], observation, 0))
    return 1 - here / max(1, start)
