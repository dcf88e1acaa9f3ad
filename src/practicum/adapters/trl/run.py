"""Trains as an exported folder says: `python -m practicum.adapters.trl.run FOLDER [key=value ...]`.

The folder holds `trl.yaml` and the tables; checkpoints go to `checkpoints/`, the trained model
to `model/`, both as Hugging Face folders with the model's own tokenizer.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from practicum.adapters.stepwise import World
from practicum.adapters.trl.environment import EnvironmentFactory
from practicum.adapters.trl.export import HELD_OUT_FILE, SETTINGS_FILE, TRAIN_FILE
from practicum.adapters.trl.tokenizer import prepare_tokenizer
from practicum.config.base import StrictConfig, read_config
from practicum.config.train import LoraConfig
from practicum.core.errors import ConfigError, PracticumError
from practicum.train.checkpoint import MANIFEST_FILE

try:
    import torch
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from transformers.trainer_utils import get_last_checkpoint
    from trl.trainer.grpo_config import GRPOConfig
    from trl.trainer.grpo_trainer import GRPOTrainer
except ImportError as error:
    raise ConfigError(
        f"training with TRL needs {error.name}: pip install 'practicum[trl]'"
    ) from error

CHECKPOINTS = "checkpoints"
MODEL = "model"


class WorldConfig(StrictConfig):
    """An environment, and how far an episode in it may go."""

    env: str
    options: dict[str, Any] = Field(default_factory=dict)
    format: str
    limits: dict[str, Any] = Field(default_factory=dict)


class TrlModelConfig(StrictConfig):
    """The weights."""

    path: str
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """`auto`: float32, computed in bfloat16 on a GPU."""
    lora: LoraConfig | None = None


class TrlRunConfig(StrictConfig):
    """What an exported folder says."""

    model: TrlModelConfig
    worlds: dict[str, WorldConfig]
    """By the name that stands in a row's column `environment`."""
    answer_tokens: int = Field(ge=1)
    """Limit for one answer."""
    threads: int | None = None
    grpo: dict[str, Any]
    """Arguments of TRL's `GRPOConfig`."""


def train(folder: Path, config: TrlRunConfig) -> Path:
    """Train, going on from the newest checkpoint if there is one; returns the model's folder."""
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")  # the pinned release is known to work
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    args = _arguments(folder, config)
    worlds = {
        name: World(one.env, format_name=one.format, limits=one.limits, options=one.options)
        for name, one in config.worlds.items()
    }
    try:
        held_out = folder / HELD_OUT_FILE
        trainer = GRPOTrainer(
            model=_model(config),
            args=args,
            train_dataset=_read(folder / TRAIN_FILE),
            eval_dataset=_read(held_out) if held_out.exists() else None,
            processing_class=prepare_tokenizer(AutoTokenizer.from_pretrained(config.model.path)),
            peft_config=_peft(config.model.lora),
            environment_factory={
                name: EnvironmentFactory(world, max_completion_tokens=args.max_completion_length)
                for name, world in worlds.items()
            },
            callbacks=[_OwnTokenizer(folder, config.model.path)],
        )
        has_checkpoint = Path(args.output_dir).is_dir() and get_last_checkpoint(args.output_dir)
        trainer.train(resume_from_checkpoint=has_checkpoint or None)
    finally:
        for world in worlds.values():
            world.close()
    return _save(trainer, folder, config)


def _arguments(folder: Path, config: TrlRunConfig) -> Any:
    limit = "max_tokens" if config.grpo.get("use_vllm") else "max_new_tokens"
    given: dict[str, Any] = {
        "output_dir": str(folder / CHECKPOINTS),
        "generation_kwargs": {limit: config.answer_tokens},
        "bf16": torch.cuda.is_available() and not config.grpo.get("use_cpu"),
    }
    try:
        return GRPOConfig(**given | config.grpo)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"TRL refuses the settings under grpo: {error}") from error


def _model(config: TrlRunConfig) -> Any:
    dtype = "float32" if config.model.dtype == "auto" else config.model.dtype
    return AutoModelForCausalLM.from_pretrained(config.model.path, dtype=getattr(torch, dtype))


def _peft(lora: LoraConfig | None) -> Any:
    if lora is None:
        return None
    import peft

    return peft.LoraConfig(
        task_type="CAUSAL_LM", r=lora.rank, lora_alpha=lora.alpha, target_modules=lora.targets
    )


def _read(path: Path) -> Any:
    return Dataset.from_list([json.loads(line) for line in path.read_text().splitlines()])


class _OwnTokenizer(TrainerCallback):
    """Puts the model's own tokenizer into checkpoints, in place of the one made for TRL."""

    def __init__(self, folder: Path, model: str) -> None:
        self._folder = folder
        self._model = model

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """After each checkpoint."""
        if state.is_world_process_zero:
            saved = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            finish_folder(saved, self._folder, self._model)


def finish_folder(model: Path, folder: Path, source: str) -> None:
    """Add the source's own tokenizer and what the model was trained on."""
    (model / "chat_template.jinja").unlink(missing_ok=True)
    AutoTokenizer.from_pretrained(source).save_pretrained(model)
    shutil.copyfile(folder / MANIFEST_FILE, model / MANIFEST_FILE)


def _save(trainer: Any, folder: Path, config: TrlRunConfig) -> Path:
    out = folder / MODEL
    model = trainer.accelerator.unwrap_model(trainer.model)
    if trainer.is_world_process_zero():
        merged = model.merge_and_unload() if config.model.lora is not None else model
        merged.save_pretrained(out)
        finish_folder(out, folder, config.model.path)
    return out


def main(argv: list[str]) -> int:
    """Run from a command line; returns the exit code."""
    if not argv:
        sys.stderr.write(f"{(__doc__ or '').splitlines()[0]}\n")
        return 2
    folder = Path(argv[0])
    try:
        config = read_config(TrlRunConfig, path=folder / SETTINGS_FILE, overrides=argv[1:])
        out = train(folder, config)
    except PracticumError as error:
        sys.stderr.write(f"practicum: {' '.join(str(error).split())}\n")
        return 2 if isinstance(error, ConfigError) else 1
    sys.stdout.write(f"{out}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
