"""Turns episodes into a report: from the record alone, so equal records give equal bytes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from practicum.core.episode import Episode
from practicum.core.task import Task
from practicum.evaluate.statistics import (
    Estimate,
    Tally,
    estimate_mean,
    estimate_success,
    pass_at,
    percentile,
)

Json = dict[str, Any]


def latest(episodes: Iterable[Episode]) -> dict[tuple[str, int], Episode]:
    """Index episodes by task and sample; a resumed run's later attempt replaces a broken one."""
    return {(episode.task_id, episode.sample): episode for episode in episodes}


def tally_tasks(tasks: Sequence[Task], episodes: Iterable[Episode]) -> dict[str, Tally]:
    """Count successes per task, in task order; tasks without a judged episode are left out."""
    counts: dict[str, list[bool]] = {task.id: [] for task in tasks}
    for episode in episodes:
        if episode.reward is not None and episode.task_id in counts:
            counts[episode.task_id].append(episode.reward.is_success)
    return {task_id: Tally(sum(wins), len(wins)) for task_id, wins in counts.items() if wins}


def summarise(tasks: Sequence[Task], episodes: Iterable[Episode], samples: int) -> Json:
    """The numbers of a report: every one with its denominator."""
    order = {task.id: i for i, task in enumerate(tasks)}
    played = sorted(
        latest(episodes).values(), key=lambda episode: (order[episode.task_id], episode.sample)
    )
    judged = [episode for episode in played if episode.reward is not None]
    tallies = tally_tasks(tasks, judged)
    turns = [len(episode.turns) for episode in judged]
    return {
        "episodes": len(judged),
        "tasks": len(tallies),
        "samples": samples,
        "success": _estimate(estimate_success(list(tallies.values()))),
        "reward": _estimate(estimate_mean(_task_rewards(tasks, judged))),
        "pass_at": _pass_at(list(tallies.values()), samples),
        "turns": {
            "mean": math.fsum(turns) / len(turns) if turns else None,
            "p95": percentile(turns, 0.95) if turns else None,
        },
        **_invalid_actions(judged),
        "stops": dict(sorted(Counter(e.stop.value for e in judged if e.stop).items())),
        "by_difficulty": _by_difficulty(tasks, tallies),
        "faults": _faults(played),
    }


def _estimate(estimate: Estimate | None) -> Json:
    return estimate.to_json() if estimate else {"mean": None, "low": None, "high": None}


def _task_rewards(tasks: Sequence[Task], judged: Iterable[Episode]) -> list[float]:
    values: dict[str, list[float]] = {task.id: [] for task in tasks}
    for episode in judged:
        assert episode.reward is not None
        values[episode.task_id].append(episode.reward.value)
    return [math.fsum(rewards) / len(rewards) for rewards in values.values() if rewards]


def _pass_at(tallies: Sequence[Tally], samples: int) -> Json:
    powers = [2**i for i in range(samples.bit_length()) if 2**i <= samples]
    return {str(k): pass_at(k, tallies) for k in sorted({*powers, samples})}


def _invalid_actions(judged: Sequence[Episode]) -> Json:
    turns = [turn for episode in judged for turn in episode.turns]
    invalid = sum(turn.is_invalid for turn in turns)
    errors = Counter(turn.format_error.kind.value for turn in turns if turn.format_error)
    return {
        "invalid_action_rate": invalid / len(turns) if turns else None,
        "format_errors": {"total": errors.total(), "by_kind": dict(sorted(errors.items()))},
    }


def _by_difficulty(tasks: Sequence[Task], tallies: Mapping[str, Tally]) -> Json:
    strata: dict[str, list[Tally]] = {}
    for task in tasks:
        if task.id in tallies:
            strata.setdefault(task.difficulty, []).append(tallies[task.id])
    return {
        name: {
            **_estimate(estimate_success(stratum)),
            "tasks": len(stratum),
            "episodes": sum(tally.samples for tally in stratum),
        }
        for name, stratum in sorted(strata.items())
    }


def _faults(played: Iterable[Episode]) -> Json:
    kinds = Counter(episode.error.kind for episode in played if episode.error)
    return {"total": kinds.total(), "by_kind": dict(sorted(kinds.items()))}
