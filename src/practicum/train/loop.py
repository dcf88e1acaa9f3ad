"""The online loop: play groups, learn from them, say what happened.

Evaluation, display and files come in as functions: the loop knows neither.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from practicum.config.train import RlConfig
from practicum.core.episode import Episode
from practicum.core.errors import EnvError
from practicum.policies.local.policy import HfPolicy
from practicum.train.algorithms import make_algorithm
from practicum.train.collect import Collected, Collector
from practicum.train.mixture import Mixture, OpenGroup
from practicum.train.replay import ReplayStore
from practicum.train.trainer import LocalTrainer, Metrics
from practicum.train.update import update_policy

Evaluate = Callable[[int], Awaitable[Mapping[str, float]]]
"""Evaluates the policy after so many updates; gives `eval/...` metrics."""
Estimate = Callable[[Sequence[tuple[int, int]]], Mapping[str, float]]
"""From (successes, samples) of tasks to the success rate: `mean`, `low` and `high`."""


@dataclass
class Progress:
    """Where training stands; all that a checkpoint must remember beside the weights."""

    update: int = 0
    train_s: float = 0.0
    """Time spent in updates, evaluations aside."""
    mixture: dict[str, Any] = field(default_factory=dict)
    """Which group comes next, as `Mixture.to_json` writes it; empty at the start."""
    open_groups: list[OpenGroup] = field(default_factory=list)
    """Under way when the checkpoint was written: their missing members are played first."""
    replay: list[Episode] = field(default_factory=list)
    """Kept to be learned from again."""

    def to_json(self) -> dict[str, Any]:
        """What a checkpoint writes down."""
        groups = [group.to_json() for group in self.open_groups]
        return {
            "update": self.update,
            "train_s": self.train_s,
            "mixture": self.mixture,
            "open_groups": groups,
            "replay": [episode.id for episode in self.replay],
        }


@dataclass(frozen=True)
class Journal:
    """Where a run's records go."""

    record: Callable[[Episode], None]
    log: Callable[[Metrics], None]
    save: Callable[[Progress], Path]
    """Writes a checkpoint."""
    estimate: Estimate
    is_stopping: Callable[[], bool] = lambda: False
    """Asked after every update: whether to write a checkpoint and stop."""


async def train_online(
    config: RlConfig,
    mixture: Mixture,
    policy: HfPolicy,
    trainer: LocalTrainer,
    evaluate: Evaluate | None,
    journal: Journal,
    progress: Progress,
    reference: Any = None,
) -> Path:
    """Train from where `progress` stands to the end; returns the last checkpoint.

    `reference` is the network training began with, for `algorithm.kl`.
    """
    algorithm = make_algorithm(config.algorithm)
    if progress.mixture:
        mixture.take_up(progress.mixture)
    slots = config.sampler.slots
    bound = config.max_staleness
    collector = Collector(mixture, slots, config.groups, algorithm, journal.record, bound)
    collector.version = progress.update
    mixture.set_horizon(progress.update)
    for group in progress.open_groups:
        collector.start(group)
    store = ReplayStore(config.replay, progress.replay) if config.replay else None
    policy.version = progress.update
    policy.engine.take_stats()
    path: Path | None = None

    def is_last() -> bool:
        minutes = config.max_minutes
        is_late = minutes is not None and progress.train_s >= 60 * minutes
        return progress.update >= config.num_updates or is_late or journal.is_stopping()

    try:
        while not is_last():
            began = perf_counter()
            mixture.set_horizon(progress.update)
            shares = mixture.shares()
            policy.engine.resume(weights_changed=True)
            collected = await collector.collect()
            if bound == 0:
                await policy.engine.pause()
            played = perf_counter()
            _stop_if_all_broke(collected, journal, progress)
            learnt: Metrics = {}
            replayed = store.draw(config.seed, progress.update) if store else []
            if collected.teaching or replayed:
                update = partial(
                    update_policy,
                    trainer,
                    collected.teaching,
                    algorithm,
                    update=progress.update,
                    seed=config.seed,
                    reference=reference,
                    is_normalised=config.mixture is not None and config.mixture.normalise,
                    replay=config.replay,
                    replayed=replayed,
                )
                learnt = update() if bound == 0 else await _beside_sampling(update, policy)
            trained = perf_counter()
            if bound > 0:
                await policy.engine.pause()
            trainer.publish(policy.model)
            published = perf_counter()
            aged = staleness(collected, progress.update)
            assert bound == 0 or max(aged, default=0) <= bound, f"{max(aged)} updates old"
            progress.update += 1
            progress.train_s += published - began
            for name in mixture.parts:
                mixture.observe(name, mean_rewards(collected.of(name)))
            progress.mixture = mixture.to_json()
            if store is not None:
                store.observe(collected.groups)
                progress.replay = list(store.episodes)
                learnt |= {"replay/kept": len(progress.replay)}
            progress.open_groups = collector.open_groups
            policy.version = collector.version = progress.update
            metrics = {
                "update": progress.update,
                **describe(collected, journal.estimate),
                **describe_parts(collected, journal.estimate, shares),
                **learnt,
                **(describe_staleness(aged) if bound or config.groups.carry_over else {}),
                **_speed(
                    policy, learnt, played - began, trained - played, published - trained, bound > 0
                ),
                "time/elapsed_s": progress.train_s,
            }
            every = config.evaluate.every if config.evaluate is not None else None
            if evaluate is not None and every and progress.update % every == 0 and not is_last():
                policy.engine.resume(weights_changed=True)
                metrics |= await evaluate(progress.update)
                await policy.engine.pause()
                policy.engine.take_stats()
            journal.log(metrics)
            path = None
            if progress.update % config.checkpoints.every == 0 or is_last():
                path = journal.save(progress)
    finally:
        await collector.aclose()
        policy.engine.resume(weights_changed=True)
    return path or journal.save(progress)


def _stop_if_all_broke(collected: Collected, journal: Journal, progress: Progress) -> None:
    """Going on without a judged episode of a world would spend the run's updates on nothing."""
    for part in sorted({group.part for group in collected.groups}):
        episodes = collected.of(part).episodes
        if not all(e.is_broken for e in episodes):
            continue
        journal.save(progress)
        kinds = Counter(e.error.kind for e in episodes if e.error is not None)
        first = next(e.error for e in episodes if e.error is not None)
        raise EnvError(
            f"all {len(episodes)} {part} episodes of update {progress.update + 1} broke "
            f"({', '.join(f'{kind} {count}' for kind, count in kinds.items())}), first: "
            f"{first.message}; mend that and go on with --resume"
        )


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


def mean_rewards(collected: Collected) -> list[float]:
    """What the judged episodes of each group earned."""
    groups = [[e.reward.value for e in g.group.judged if e.reward] for g in collected.groups]
    return [sum(rewards) / len(rewards) for rewards in groups if rewards]


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


async def _beside_sampling(update: Callable[[], Metrics], policy: HfPolicy) -> Metrics:
    """Train in a thread, on a GPU also in a stream of its own, while the event loop samples."""
    if policy.model.device.type != "cuda":
        return await asyncio.to_thread(update)
    import torch

    def run() -> Metrics:
        stream = torch.cuda.Stream(policy.model.device)
        # The sampler's copy of the weights is made in the default stream.
        stream.wait_stream(torch.cuda.default_stream(policy.model.device))
        with torch.cuda.stream(stream):
            learnt = update()
        stream.synchronize()
        return learnt

    return await asyncio.to_thread(run)


def _speed(
    policy: HfPolicy,
    learnt: Metrics,
    rollout_s: float,
    training_s: float,
    sync_s: float,
    is_overlapped: bool,
) -> Metrics:
    """Where the time went; overlapped, sampling goes on in training and idle is the trainer."""
    stats = policy.engine.take_stats()
    slots = policy.engine.options.num_slots
    computed = learnt.get("tokens/computed", 0.0)
    total_s = rollout_s + training_s + sync_s
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
        "time/sync_s": sync_s if is_overlapped else 0.0,
        "time/idle_s": rollout_s if is_overlapped else 0.0,
        "time/total_s": total_s,
    }
