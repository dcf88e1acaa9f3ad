"""Supervised training: cross-entropy on the chosen answers of demonstrations."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

import numpy as np
from torch import Tensor

from practicum.config.train import SftConfig
from practicum.core.canonical import stable_seed
from practicum.core.errors import ConfigError
from practicum.train.batch import Pack, Sample
from practicum.train.loop import Evaluate, Journal, Progress
from practicum.train.losses import sft_loss
from practicum.train.trainer import LocalTrainer, Metrics, Scored

logger = logging.getLogger(__name__)


def num_updates(config: SftConfig, num_samples: int) -> int:
    """How many updates the config asks for."""
    per_epoch = -(-num_samples // config.batch_size)
    return min(config.max_updates or per_epoch * config.epochs, per_epoch * config.epochs)


def fitting(samples: Sequence[Sample], config: SftConfig) -> list[Sample]:
    """The demonstrations that fit the context; a cut one would teach to stop early."""
    max_context = config.model.max_context
    fit = [s for s in samples if len(s) <= max_context]
    if len(fit) == len(samples):
        return fit
    longest = max(len(s) for s in samples)
    what = (
        f"{len(samples) - len(fit)} of {len(samples)} demonstrations are longer than "
        f"model.max_context={max_context} (the longest has {longest} tokens)"
    )
    if config.demonstrations.longer == "refuse":
        raise ConfigError(f"{what}: raise it, or set demonstrations.longer=skip")
    if not fit:
        raise ConfigError(f"{what}: none is left, raise it")
    logger.warning("%s and are left out", what)
    return fit


async def train_supervised(
    config: SftConfig,
    samples: Sequence[Sample],
    trainer: LocalTrainer,
    evaluate: Evaluate | None,
    journal: Journal,
    progress: Progress,
) -> Path:
    """Train from where `progress` stands to the end; returns the last checkpoint."""
    total = num_updates(config, len(samples))
    every = config.evaluate.every if config.evaluate is not None else None
    path: Path | None = None
    while progress.update < total and not journal.is_stopping():
        began = perf_counter()
        batch = _batch(config, samples, progress.update)
        packs = trainer.pack(batch)
        trainer.team.send((packs, progress.update))
        learnt = learn_batch(trainer, packs, progress.update)
        taken_s = perf_counter() - began
        progress.update += 1
        progress.train_s += taken_s
        computed = sum(pack.num_computed for pack in packs)
        metrics = {
            "update": progress.update,
            "loss/sft": learnt["loss"],
            "policy/entropy": learnt["entropy"],
            "grad/norm": learnt["grad_norm"],
            "lr": learnt["lr"],
            "tokens/trained": sum(sample.num_trained for sample in batch),
            "tokens/computed": computed,
            "tokens/trained_per_s": computed / taken_s,
            "time/training_s": taken_s,
            "time/total_s": taken_s,
            "time/elapsed_s": progress.train_s,
        }
        if evaluate is not None and every and progress.update % every == 0:
            metrics |= await evaluate(progress.update)
        journal.log(metrics)
        path = None
        if progress.update % config.checkpoints.every == 0 or progress.update == total:
            path = journal.save(progress)
    return path or journal.save(progress)


def learn_batch(trainer: LocalTrainer, packs: Sequence[Pack], update: int) -> Metrics:
    """One update on packed conversations."""
    return trainer.step(packs, _objective, update=update)


def _objective(scored: Scored) -> tuple[Tensor, dict[str, Tensor]]:
    return sft_loss(scored.logprobs_N), {}


def _batch(config: SftConfig, samples: Sequence[Sample], update: int) -> list[Sample]:
    """The conversations of an update: each epoch is a new shuffle, its last batch is short."""
    per_epoch = -(-len(samples) // config.batch_size)
    epoch, index = divmod(update, per_epoch)
    order = np.random.default_rng(stable_seed(config.seed, "sft", epoch)).permutation(len(samples))
    return [samples[i] for i in order[index * config.batch_size :][: config.batch_size]]
