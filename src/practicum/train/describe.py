"""What the episodes of an update were like, and where its time went, as metrics."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from practicum.policies.local.policy import HfPolicy
from practicum.train.collect import Collected
from practicum.train.order import Outcome
from practicum.train.trainer import Metrics

Estimate = Callable[[Sequence[tuple[int, int]]], Mapping[str, float]]
"""From (successes, samples) of tasks to the success rate: `mean`, `low` and `high`."""


@dataclass(frozen=True)
class Times:
    """How long the phases of an update took, in seconds."""

    rollout: float
    """Until there were enough groups."""
    training: float
    sync: float
    is_overlapped: bool
    """Sampling went on in training."""


def describe(collected: Collected, estimate: Estimate) -> Metrics:
    """What the episodes of an update were like."""
    episodes = collected.episodes
    judged = [e for e in episodes if e.reward is not None]
    kinds = Counter(g.kind for g in collected.groups)
    metrics: dict[str, Any] = {
        "episode/count": len(episodes),
        "episode/judged": len(judged),
        "group/count": len(collected.groups),
        "group/informative": kinds["informative"],
        "group/all_success": kinds["all-success"],
        "group/all_failure": kinds["all-failure"] + kinds["equal"],
        "group/dropped": kinds["too-few"],
        "error/total": sum(e.is_broken for e in episodes),
    }
    if judged:
        num_turns = sum(len(e.turns) for e in judged)
        metrics |= {
            "reward/mean": sum(e.reward.value for e in judged if e.reward) / len(judged),
            **_success(collected, estimate),
            "episode/num_turns": num_turns / len(judged),
            "episode/invalid_rate": sum(t.is_invalid for e in judged for t in e.turns)
            / max(1, num_turns),
        }
    stops = Counter(str(e.stop) for e in judged)
    errors = Counter(e.error.kind for e in episodes if e.error is not None)
    if any(e.reward.dense for e in judged if e.reward):
        paid = [sum(e.reward.dense) for e in judged if e.reward]
        metrics["reward/dense"] = sum(paid) / len(paid)
    metrics |= {f"stop/{name}": count for name, count in sorted(stops.items())}
    metrics |= {f"error/{name}": count for name, count in sorted(errors.items())}
    return metrics


def describe_parts(
    collected: Collected, estimate: Estimate, shares: Mapping[str, float]
) -> Metrics:
    """The same for each environment by itself, if there are several."""
    if len(shares) == 1:
        return {}
    metrics: Metrics = {}
    for part, share in shares.items():
        metrics[f"env/{part}/share"] = share
        described = describe(collected.of(part), estimate)
        metrics |= {f"env/{part}/{name}": value for name, value in described.items()}
    return metrics


def outcomes(collected: Collected) -> list[Outcome]:
    """What came of each group that has judged episodes."""
    groups = [(g, [e.reward.value for e in g.group.judged if e.reward]) for g in collected.groups]
    return [
        Outcome(g.group.task.difficulty, sum(rewards) / len(rewards), g.teaches)
        for g, rewards in groups
        if rewards
    ]


def describe_curriculum(shares: Mapping[str, Mapping[str, float]]) -> Metrics:
    """What a curriculum plays, by environment and difficulty; `depth 1` is `depth_1` here."""
    return {
        (f"env/{part}/" if len(shares) > 1 else "")
        + "curriculum/"
        + re.sub(r"[^\w.-]+", "_", difficulty): share
        for part, found in shares.items()
        for difficulty, share in found.items()
    }


def _success(collected: Collected, estimate: Estimate) -> Metrics:
    """The success rate with its interval: tasks are the unit of chance, not episodes."""
    groups = [g.group for g in collected.groups if g.group.judged]
    tallies = [(sum(e.is_success for e in g.judged), len(g.judged)) for g in groups]
    return {f"success/{name}": value for name, value in estimate(tallies).items()}


def staleness(collected: Collected, update: int) -> list[int]:
    """How many updates ago each answer that teaches was asked for."""
    return [
        update - turn.completion.policy_version
        for group in collected.teaching
        for episode in group.group.judged
        for turn in episode.turns
        if turn.completion.policy_version is not None
    ]


def describe_staleness(aged: Sequence[int]) -> Metrics:
    """Their mean and the largest."""
    if not aged:
        return {}
    return {"staleness/mean": sum(aged) / len(aged), "staleness/max": max(aged)}


def describe_speed(policy: HfPolicy, learnt: Metrics, times: Times) -> Metrics:
    """Where the time went; overlapped, sampling goes on in training and idle is the trainer."""
    is_overlapped, rollout_s, training_s = times.is_overlapped, times.rollout, times.training
    stats = policy.engine.take_stats()
    slots = policy.engine.options.num_slots
    computed = learnt.get("tokens/computed", 0.0)
    total_s = rollout_s + training_s + times.sync
    environment_s = 0.0 if is_overlapped else max(0.0, rollout_s - stats.time_s)
    return {
        "tokens/sampled": stats.sampled_tokens,
        "tokens/prompt": stats.prompt_tokens,
        "tokens/copied": stats.copied_tokens,
        "tokens/sampled_per_s": stats.sampled_tokens / (total_s if is_overlapped else rollout_s),
        "tokens/trained_per_s": computed / training_s,
        "slots/busy": stats.busy_slots / max(1, stats.steps * slots),
        "time/sampling_s": stats.time_s,
        "time/environment_s": environment_s,
        "time/training_s": training_s,
        "time/sync_s": times.sync if is_overlapped else 0.0,
        "time/idle_s": rollout_s if is_overlapped else 0.0,
        "time/total_s": total_s,
    }
