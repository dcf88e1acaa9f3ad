"""Milestones in one number: success is 1, and nothing on the way is as good."""

from __future__ import annotations

import pytest

from practicum.core.episode import Completion, Episode, StopReason, Turn
from practicum.core.message import Action, Observation
from practicum.core.task import Task
from practicum.rewards.milestones import pay_milestones
from practicum.rewards.outcome import judge_outcome

TASK = Task.create("e", "p", {})


@pytest.mark.parametrize(
    ("score", "progress", "value"),
    [(0.0, None, 0.0), (0.0, 0.5, 0.25), (0.0, 1.0, 0.5), (0.5, 1.0, 0.75), (1.0, 0.5, 1.0)],
)
async def test_what_is_missing_to_success_is_paid_for_with_milestones(
    score: float, progress: float | None, value: float
) -> None:
    turn = Turn(Observation(""), Completion(""), Action("a"), reward=score, progress=progress)
    lost = Turn(Observation(""), Completion(""), None)
    episode = Episode("i", TASK.id, "e", 0, 0, "", (turn, lost), None, StopReason.DONE)
    reward = await pay_milestones(judge_outcome, 0.5)(TASK, episode)
    assert reward.value == value
    assert reward.parts == {"final": score, "milestones": progress or 0.0}
    assert reward.dense == ()
