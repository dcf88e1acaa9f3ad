"""Two episodes of one task in few lines, beside each other: what an agent did and does now."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from itertools import groupby, zip_longest

from practicum.core.episode import Episode, Turn

_SIDE_BY_SIDE_FROM = 88
"""Narrower than this, two columns would be unreadable."""
_MAX_RESPONSE_LINES = 2
_GAP = " │ "
_MAX_SHOWN_TURNS = 12


def find_turnaround(
    before: Iterable[Episode], after: Iterable[Episode]
) -> tuple[Episode, Episode] | None:
    """An attempt that failed before and is solved now: the one with most turns in it, at most 12.

    The first of them where several have as many, so that a run always shows the same one.
    """
    failed = {(e.task_id, e.sample): e for e in before if e.reward and not e.reward.is_success}
    solved = [
        (failed[e.task_id, e.sample], e)
        for e in after
        if e.reward and e.reward.is_success and (e.task_id, e.sample) in failed
        if len(e.turns) <= _MAX_SHOWN_TURNS
    ]
    return max(solved, key=lambda pair: len(pair[1].turns), default=None)


def transcript_pair(
    before: Episode,
    after: Episode,
    *,
    names: tuple[str, str] = ("before", "after"),
    width: int = 100,
) -> str:
    """Write two episodes of one task: side by side, or one after the other where it is narrow."""
    if before.task_id != after.task_id:
        raise ValueError(f"{before.task_id} and {after.task_id} are different tasks")
    episodes = dict(zip(names, (before, after), strict=True))
    if width < _SIDE_BY_SIDE_FROM:
        blocks = ["\n".join(_transcript(n, e, width)) for n, e in episodes.items()]
        return "\n\n".join([*_goal(before, width), *blocks])
    column = (width - len(_GAP)) // 2
    left, right = (_transcript(n, e, column) for n, e in episodes.items())
    rows = zip_longest(left, right, fillvalue="")
    return "\n".join(
        [*_goal(before, width), *(f"{a:<{column}}{_GAP}{b}".rstrip() for a, b in rows)]
    )


def _goal(episode: Episode, width: int) -> list[str]:
    """The last line of what the agent is shown first: worlds end it with the goal."""
    first = episode.turns[0].observation if episode.turns else episode.final
    lines = first.text.split("\n") if first else []
    goal = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return [textwrap.shorten(goal, width, placeholder=" …")] if goal else []


def _transcript(name: str, episode: Episode, width: int) -> list[str]:
    lines = [_verdict(name, episode), "─" * width]
    responses = [turn.observation.text for turn in episode.turns[1:]]
    if episode.turns:
        responses.append(episode.final.text if episode.final else "")
    number = 0
    exchanges = zip(episode.turns, responses, strict=True)
    for (said, response, mark), repeats in groupby(
        ((_said(turn), response, _mark(turn)) for turn, response in exchanges)
    ):
        count = len(list(repeats))
        number += 1
        lines += _wrap(said, f"{number:>2} > ", width, max_lines=2)
        lines += _wrap(response, f"   {mark} ", width, max_lines=_MAX_RESPONSE_LINES)
        if count > 1:
            number += count - 1
            lines.append(f"     … and the same {count - 1} more times")
    return lines


def _verdict(name: str, episode: Episode) -> str:
    turns = f"{len(episode.turns)} turn{'s' * (len(episode.turns) != 1)}"
    if episode.error is not None:
        return f"{name}: broke after {turns} ({episode.error.kind})"
    verdict = "solved" if episode.reward and episode.reward.is_success else "failed"
    return f"{name}: {verdict} after {turns} ({episode.stop or 'not ended'})"


def _said(turn: Turn) -> str:
    return turn.action.text if turn.action is not None else turn.completion.text


def _mark(turn: Turn) -> str:
    return "✗" if turn.is_invalid else " "


def _wrap(text: str, lead: str, width: int, *, max_lines: int) -> list[str]:
    return textwrap.wrap(
        " ".join(text.split()) or "(nothing)",
        width,
        initial_indent=lead,
        subsequent_indent=" " * len(lead),
        max_lines=max_lines,
        placeholder=" …",
        break_on_hyphens=False,
    )
