"""The online loop: play groups, learn from them, say what happened.

Evaluation, display and files come in as functions: the loop knows neither.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from practicum.config.train import RlConfig
from practicum.core.episode import Episode
from practicum.core.errors import EnvError
from practicum.policies.local.policy import HfPolicy
from practicum.train.algorithms import make_algorithm
from practicum.train.algorithms.base import Algorithm
from practicum.train.collect import Collected, Collector
from practicum.train.describe import (
    Estimate,
    Times,
    describe,
    describe_curriculum,
    describe_parts,
    describe_speed,
    describe_staleness,
    outcomes,
    staleness,
)
from practicum.train.mixture import Mixture, OpenGroup
from practicum.train.replay import ReplayStore
from practicum.train.trainer import LocalTrainer, Metrics
from practicum.train.update import update_policy

Evaluate = Callable[[int], Awaitable[Mapping[str, float]]]
"""Evaluates the policy after so many updates; gives `eval/...` metrics."""


@dataclass
class Progress:
    """Where training stands; all that a checkpoint must remember beside the weights."""

    update: int = 0
    train_s: float = 0.0
    """Time spent in updates, evaluations aside."""
    saving_s: float = 0.0
    """Time spent on checkpoints, but for the one this is written into."""
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
            "saving_s": self.saving_s,
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
    bound = config.max_staleness
    collector = _start_collector(config, mixture, algorithm, journal.record, progress)
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
            shares, by_difficulty = mixture.shares(), mixture.difficulty_shares()
            policy.engine.resume(weights_changed=True)
            collected = await collector.collect()
            if bound == 0:
                await policy.engine.pause()
            played = perf_counter()
            _stop_if_all_broke(collected, journal, progress)
            aged = staleness(collected, progress.update)
            assert bound == 0 or max(aged, default=0) <= bound, f"{max(aged)} updates old"
            replayed = store.draw(config.seed, progress.update) if store else []
            learnt = await _learn(
                config, trainer, algorithm, collected, replayed, progress.update, reference
            )
            trained = perf_counter()
            if bound > 0:
                await policy.engine.pause()
            trainer.publish(policy.model)
            published = perf_counter()
            progress.update += 1
            progress.train_s += published - began
            learnt |= _remember(collected, mixture, store, progress)
            progress.open_groups = collector.open_groups
            policy.version = collector.version = progress.update
            times = Times(played - began, trained - played, published - trained, bound > 0)
            metrics = {
                "update": progress.update,
                **describe(collected, journal.estimate),
                **describe_parts(collected, journal.estimate, shares),
                **describe_curriculum(by_difficulty),
                **learnt,
                **(describe_staleness(aged) if bound or config.groups.carry_over else {}),
                **describe_speed(policy, learnt, times),
                "time/elapsed_s": progress.train_s,
            }
            if evaluate is not None and _is_due(config, progress.update) and not is_last():
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


def _start_collector(
    config: RlConfig,
    mixture: Mixture,
    algorithm: Algorithm[Any],
    record: Callable[[Episode], None],
    progress: Progress,
) -> Collector:
    """Go on with the groups that were under way."""
    if progress.mixture:
        mixture.take_up(progress.mixture)
    slots, bound = config.sampler.slots, config.max_staleness
    collector = Collector(mixture, slots, config.groups, algorithm, record, bound)
    collector.version = progress.update
    mixture.set_horizon(progress.update)
    for group in progress.open_groups:
        collector.start(group)
    return collector


def _is_due(config: RlConfig, update: int) -> bool:
    every = config.evaluate.every if config.evaluate is not None else None
    return every is not None and update % every == 0


async def _learn(
    config: RlConfig,
    trainer: LocalTrainer,
    algorithm: Algorithm[Any],
    collected: Collected,
    replayed: Sequence[Episode],
    update: int,
    reference: Any,
) -> Metrics:
    """Change the weights, if there is anything to learn from; in overlap beside the sampler."""
    if not collected.teaching and not replayed:
        return {}
    change = partial(
        update_policy,
        trainer,
        collected.teaching,
        algorithm,
        update=update,
        seed=config.seed,
        reference=reference,
        is_normalised=config.mixture is not None and config.mixture.normalise,
        replay=config.replay,
        replayed=replayed,
    )
    if config.max_staleness == 0:
        return change()
    return await _beside_sampling(change, trainer.model.device)


def _remember(
    collected: Collected, mixture: Mixture, store: ReplayStore | None, progress: Progress
) -> Metrics:
    """Take note of what decides later updates."""
    for name in mixture.parts:
        mixture.observe(name, outcomes(collected.of(name)))
    progress.mixture = mixture.to_json()
    if store is None:
        return {}
    store.observe(collected.groups)
    progress.replay = list(store.episodes)
    return {"replay/kept": len(progress.replay)}


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


async def _beside_sampling(update: Callable[[], Metrics], device: torch.device) -> Metrics:
    """Train in a thread, on a GPU also in a stream of its own, while the event loop samples."""
    if device.type != "cuda":
        return await asyncio.to_thread(update)

    def run() -> Metrics:
        stream = _training_stream(device)
        # The sampler's copy of the weights is made in the default stream.
        stream.wait_stream(torch.cuda.default_stream(device))
        with torch.cuda.stream(stream):
            learnt = update()
        stream.synchronize()
        return learnt

    return await asyncio.to_thread(run)


@cache
def _training_stream(device: torch.device) -> torch.cuda.Stream:
    """One for all updates: memory that a stream gave back is kept for that stream."""
    return torch.cuda.Stream(device)
