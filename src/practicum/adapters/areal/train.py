"""Trains with AReaL from an exported folder: `python -m practicum.adapters.areal.train`.

AReaL's own trainer does all the work; this names the workflow to it and reads the tables.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from areal.api.cli_args import PPOConfig

from practicum.core.errors import ConfigError
from practicum.train.checkpoint import MANIFEST_FILE


@dataclass
class TrainConfig(PPOConfig):  # type: ignore[misc]
    """AReaL's settings, and which workflow plays."""

    workflow: str = field(default="", metadata={"help": "Dotted path of the workflow."})
    workflow_kwargs: dict[str, Any] = field(
        default_factory=dict, metadata={"help": "What the workflow is told."}
    )
    eval_workflow_kwargs: dict[str, Any] = field(
        default_factory=dict, metadata={"help": "The same for evaluation."}
    )
    accept: str | None = field(
        default=None, metadata={"help": "Dotted path of a function that keeps groups or not."}
    )
    needs: list[str] = field(
        default_factory=list, metadata={"help": "Variables that must be set, by name."}
    )


def check_variables(names: Sequence[str]) -> None:
    """Raise `ConfigError` for variables that are needed and not set."""
    if missing := [name for name in names if not os.environ.get(name)]:
        raise ConfigError(f"set {', '.join(missing)}: the environment needs it")


def read_table(path: str) -> Any:
    """A table of tasks as AReaL's trainer takes it."""
    from datasets import Dataset

    lines = Path(path).read_text(encoding="utf-8").splitlines()
    # Tasks stay text: as columns, tasks of different shape would be filled up to one.
    return Dataset.from_list([{"task": line} for line in lines])


def main(arguments: list[str]) -> None:
    """Train."""
    from areal import PPOTrainer
    from areal.api.cli_args import load_expr_config

    from practicum.adapters.areal.doctor import refuse_wrong

    config, file = load_expr_config(arguments, TrainConfig)
    check_variables(config.needs)
    refuse_wrong(config)
    held_out = config.valid_dataset
    with PPOTrainer(
        config,
        train_dataset=read_table(config.train_dataset.path),
        valid_dataset=read_table(held_out.path) if held_out is not None else None,
    ) as trainer:
        trainer.train(
            workflow=config.workflow,
            workflow_kwargs=config.workflow_kwargs,
            eval_workflow=config.workflow if held_out is not None else None,
            eval_workflow_kwargs=config.eval_workflow_kwargs,
            dynamic_filter_fn=config.accept,
        )
    note_training(config, Path(file).with_name(MANIFEST_FILE))


def note_training(config: Any, manifest: Path) -> list[Path]:
    """Put beside every saved model what it was trained on, as our own checkpoints have it."""
    from areal.utils.saver import Saver

    saver = config.saver
    root = Saver.get_model_save_root(saver.experiment_name, saver.trial_name, saver.fileroot)
    folders = [found.parent for found in sorted(Path(root).glob("*/config.json"))]
    for folder in folders:
        shutil.copy(manifest, folder)
    return folders


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except ConfigError as error:
        sys.exit(f"practicum: {error}")
