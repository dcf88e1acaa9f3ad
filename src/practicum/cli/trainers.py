"""Makes what learns: in the process that leads a training, and in those that help it."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from practicum.config.train import RlConfig, SftConfig, TrainingConfig
from practicum.policies.local.weights import LocalModel, load_model
from practicum.train.algorithms import make_algorithm
from practicum.train.checkpoint import STATE_FILE
from practicum.train.sft import learn_batch
from practicum.train.team import Team
from practicum.train.trainer import LocalTrainer, prepare_model
from practicum.train.update import learn


@dataclass(frozen=True)
class Start:
    """What helpers need to know before the first lesson."""

    num_updates: int
    checkpoint: Path | None


def make_model(config: TrainingConfig) -> LocalModel:
    """The model as the config wants it trained."""
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    model = load_model(config.model.path, device=config.model.device, dtype=config.model.dtype)
    return prepare_model(model, config.model, config.seed)


def make_reference(config: TrainingConfig, model: LocalModel) -> Any:
    """The network training begins with, where an algorithm asks for it."""
    is_asked_for = isinstance(config, RlConfig) and config.algorithm.kl > 0
    return deepcopy(model.network) if is_asked_for else None


def make_trainer(
    config: TrainingConfig, model: LocalModel, num_updates: int, team: Team
) -> LocalTrainer:
    """Whoever owns the optimiser."""
    temperature, value_rate = 1.0, None
    if isinstance(config, RlConfig):
        temperature = config.sampling.temperature
        value_rate = config.algorithm.value_rate(config.optimizer.learning_rate)
    return LocalTrainer(
        model,
        config.optimizer,
        config.packing,
        num_updates=num_updates,
        gradient_checkpointing=config.model.gradient_checkpointing,
        compile_model=config.model.compile,
        temperature=temperature,
        value_learning_rate=value_rate,
        team=team,
    )


def follow(config: SftConfig | RlConfig, team: Team) -> None:
    """Be a helper: learn what the first process sends, until it is done."""
    start: Start = team.receive()
    model = make_model(config)
    reference = make_reference(config, model)
    trainer = make_trainer(config, model, start.num_updates, team)
    if start.checkpoint is not None:
        trainer.load_state(start.checkpoint / STATE_FILE)
    if isinstance(config, RlConfig):
        algorithm = make_algorithm(config.algorithm)
        while (lesson := team.receive()) is not None:
            learn(trainer, lesson, algorithm, config.seed, reference, config.replay)
    else:
        while (batch := team.receive()) is not None:
            learn_batch(trainer, *batch)
