"""Two episodes of one task, in few lines that a person can compare."""

from __future__ import annotations

from dataclasses import replace

import pytest

from practicum.cli.transcripts import find_turnaround, transcript_pair
from practicum.core.episode import (
    Completion,
    Episode,
    FormatError,
    FormatErrorKind,
    StopReason,
    Turn,
)
from practicum.core.errors import ErrorInfo
from practicum.core.message import Action, Observation
from practicum.core.reward import Reward

START = "Crafting commands:\ncraft 4 stick using 2 planks\n\nGoal: craft stick."
NO_STICK = "Could not find enough items to craft minecraft:stick"


def act(seen: str, action: str, *, is_refused: bool = False) -> Turn:
    return Turn(Observation(seen), Completion("…"), Action(action), is_refused=is_refused)


def make_episode(*turns: Turn, final: str, is_success: bool, stop: StopReason) -> Episode:
    reward = Reward(float(is_success), is_success)
    return Episode("e", "t", "textcraft", 0, 0, "", turns, Observation(final), stop, reward=reward)


BEFORE = make_episode(
    Turn(
        Observation(START),
        Completion("stick"),
        None,
        FormatError(FormatErrorKind.NO_ACTION, "Your answer holds no action."),
    ),
    act("Your answer holds no action.", "craft 4 stick using 2 planks", is_refused=True),
    *[act(NO_STICK, "craft 4 stick using 2 planks", is_refused=True)] * 3,
    final=NO_STICK,
    is_success=False,
    stop=StopReason.REPEATED_REFUSAL,
)
AFTER = make_episode(
    act(START, "get 2 planks"),
    act("Got 2 planks", "craft 4 stick using 2 planks"),
    final="Crafted 4 minecraft:stick",
    is_success=True,
    stop=StopReason.DONE,
)

SIDE_BY_SIDE = """\
Goal: craft stick.
before: failed after 5 turns (repeated-refusal)  │ after: solved after 2 turns (done)
──────────────────────────────────────────────── │ ────────────────────────────────────────────────
 1 > stick                                       │  1 > get 2 planks
   ✗ Your answer holds no action.                │      Got 2 planks
 2 > craft 4 stick using 2 planks                │  2 > craft 4 stick using 2 planks
   ✗ Could not find enough items to craft        │      Crafted 4 minecraft:stick
     minecraft:stick                             │
     … and the same 3 more times                 │"""

ONE_AFTER_THE_OTHER = """\
Goal: craft stick.

before: failed after 5 turns (repeated-refusal)
──────────────────────────────────────────────────────────────
 1 > stick
   ✗ Your answer holds no action.
 2 > craft 4 stick using 2 planks
   ✗ Could not find enough items to craft minecraft:stick
     … and the same 3 more times

after: solved after 2 turns (done)
──────────────────────────────────────────────────────────────
 1 > get 2 planks
     Got 2 planks
 2 > craft 4 stick using 2 planks
     Crafted 4 minecraft:stick"""


def test_two_transcripts_stand_side_by_side() -> None:
    assert transcript_pair(BEFORE, AFTER, width=99) == SIDE_BY_SIDE


def test_in_a_narrow_terminal_they_follow_each_other() -> None:
    assert transcript_pair(BEFORE, AFTER, width=62) == ONE_AFTER_THE_OTHER


def test_no_line_is_wider_than_asked_for_and_long_answers_are_cut() -> None:
    long = replace(
        AFTER, turns=(act(START, "word " * 80), act("seen " * 200, "x" * 300)), final=None
    )
    text = transcript_pair(BEFORE, long, width=100)
    assert max(map(len, text.split("\n"))) <= 100
    assert "…" in text
    assert len(text.split("\n")) < 15


def test_broken_and_empty_episodes_are_shown_as_such() -> None:
    broken = replace(
        AFTER, turns=(), stop=None, reward=None, error=ErrorInfo("env/timeout", "too long", 0)
    )
    assert "after: broke after 0 turns (env/timeout)" in transcript_pair(BEFORE, broken)


def test_episodes_of_different_tasks_are_no_pair() -> None:
    with pytest.raises(ValueError, match="t and other are different tasks"):
        transcript_pair(BEFORE, replace(AFTER, task_id="other"))


def test_a_turnaround_is_an_attempt_that_failed_and_is_solved_now() -> None:
    longer = replace(AFTER, task_id="u", turns=(*AFTER.turns, AFTER.turns[-1]))
    failed = [BEFORE, replace(BEFORE, task_id="u"), replace(BEFORE, sample=1)]
    assert find_turnaround(failed, [AFTER, longer]) == (failed[1], longer)
    endless = replace(longer, turns=AFTER.turns * 7)
    assert find_turnaround(failed, [AFTER, endless]) == (BEFORE, AFTER)
    assert find_turnaround(failed, [replace(AFTER, sample=2), BEFORE]) is None
    assert find_turnaround([AFTER], [AFTER]) is None
