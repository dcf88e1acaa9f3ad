"""A run config of ours in TRL's words. What TRL cannot do as asked is refused by name."""

from __future__ import annotations

from typing import Any

from practicum.adapters.exporting import answer_room, refuse_ignored
from practicum.config.algorithms import GrpoConfig, GspoConfig
from practicum.config.train import RlConfig
from practicum.core.errors import ConfigError

Settings = dict[str, Any]

USED = (
    *("env", "options", "panel", "difficulties", "max_tasks", "format", "seed", "threads"),
    *("limits.max_turns", "limits.turn_timeout_s", "limits.max_repeated_refusals"),
    *(f"mixture.envs.*.{key}" for key in (
        *("env", "options", "panel", "difficulties", "max_tasks", "variants"),
        *(f"limits.{key}" for key in ("max_turns", "turn_timeout_s", "max_repeated_refusals")),
        *(f"evaluate.{key}" for key in ("panel", "max_tasks", "max_turns")),
    )),
    *(f"model.{key}" for key in ("path", "device", "dtype", "max_context", "lora")),
    *("model.gradient_checkpointing", "model.compile"),
    *("groups.size", "groups.per_update", "groups.max_per_update", "groups.variants"),
    *("num_updates", "checkpoints", "trackers", "sampling.temperature", "sampling.max_tokens"),
    *(f"algorithm.{key}" for key in ("name", "clip_low", "clip_high", "minibatches", "epochs")),
    *(f"algorithm.{key}" for key in ("kl", "mismatch_cap", "scale")),
    *(f"optimizer.{key}" for key in ("learning_rate", "beta1", "beta2", "weight_decay")),
    *(f"optimizer.{key}" for key in ("max_grad_norm", "warmup_updates", "schedule")),
    *(f"evaluate.{key}" for key in ("panel", "samples", "max_tasks", "every", "temperature")),
    *(f"evaluate.{key}" for key in ("max_turns", "max_repeated_refusals", "before")),
)  # fmt: skip
"""Settings that mean in TRL what they mean here; any other that is set is refused."""


def trl_settings(config: RlConfig, prompt_tokens: int) -> Settings:
    """Arguments of a `GRPOConfig`, for the longest prompt that there is."""
    refuse_ignored(config, "TRL", USED)
    _refuse_others(config)
    completion_tokens = answer_room(config, prompt_tokens)
    return {
        "seed": config.seed,
        "max_completion_length": completion_tokens,
        "vllm_max_model_length": config.model.max_context,
        "temperature": config.sampling.temperature,
        "gradient_checkpointing": config.model.gradient_checkpointing,
        "torch_compile": config.model.compile,
        "report_to": config.trackers or "none",
        "logging_steps": 1,
        **_batches(config),
        **_loss(config),
        **_optimizer(config),
        **_evaluation(config),
    }


def _refuse_others(config: RlConfig) -> None:
    """Refuse what has a counterpart in TRL only for some values."""
    groups, algorithm, held_out = config.groups, config.algorithm, config.evaluate
    if not isinstance(algorithm, GrpoConfig | GspoConfig):
        raise ConfigError(
            f"algorithm.name={algorithm.name} has no counterpart in TRL's GRPOTrainer: "
            "take grpo or gspo"
        )
    if groups.max_per_update != groups.per_update:
        raise ConfigError(
            "TRL plays a fixed number of groups and replaces none that teaches nothing: write "
            f"groups.max_per_update={groups.per_update}, as many as groups.per_update"
        )
    if groups.per_update % algorithm.minibatches:
        raise ConfigError(
            f"algorithm.minibatches={algorithm.minibatches} must divide groups.per_update="
            f"{groups.per_update}"
        )
    if config.optimizer.schedule == "linear":
        raise ConfigError("optimizer.schedule=linear ends at zero in TRL: take constant or cosine")
    if config.model.device not in ("auto", "cpu"):
        raise ConfigError(
            f"model.device={config.model.device}: TRL takes the devices it is launched with; "
            "leave it at auto, or write cpu"
        )
    if held_out is not None and held_out.temperature != config.sampling.temperature:
        raise ConfigError(
            f"evaluate.temperature={held_out.temperature:g}: TRL judges at the temperature it "
            f"samples with, sampling.temperature={config.sampling.temperature:g}"
        )
    for name, part in config.parts().items():
        if part.weight != 1:
            raise ConfigError(f"mixture.envs.{name}.weight: TRL draws all rows alike; leave it out")


def _batches(config: RlConfig) -> Settings:
    groups, algorithm = config.groups, config.algorithm
    steps = algorithm.minibatches * algorithm.epochs
    return {
        "num_generations": groups.size,
        # A group at a time in memory, and an optimiser step for each mini-batch of groups.
        "per_device_train_batch_size": groups.size,
        "gradient_accumulation_steps": groups.per_update // algorithm.minibatches,
        "steps_per_generation": groups.per_update,
        "num_iterations": algorithm.epochs,
        "max_steps": config.num_updates * steps,
        "save_strategy": "steps",
        "save_steps": config.checkpoints.every * steps,
        "save_total_limit": config.checkpoints.keep,
    }


def _loss(config: RlConfig) -> Settings:
    algorithm = config.algorithm
    assert isinstance(algorithm, GrpoConfig | GspoConfig)
    is_sequence = isinstance(algorithm, GspoConfig)
    cap = algorithm.mismatch_cap
    correction: Settings = {"vllm_importance_sampling_correction": cap is not None}
    if cap is not None:
        correction["vllm_importance_sampling_mode"] = "token_truncate"
        correction["vllm_importance_sampling_clip_max"] = cap
    return {
        # Their `dapo` is a mean over all tokens of an optimiser step, as our GRPO's loss is.
        "loss_type": "grpo" if is_sequence else "dapo",
        "importance_sampling_level": "sequence" if is_sequence else "token",
        "epsilon": algorithm.clip_low,
        "epsilon_high": algorithm.clip_high,
        "beta": algorithm.kl,
        "scale_rewards": "group" if algorithm.scale == "std" else "none",
        **correction,
    }


def _optimizer(config: RlConfig) -> Settings:
    optimizer = config.optimizer
    steps = config.algorithm.minibatches * config.algorithm.epochs
    settings: Settings = {
        "learning_rate": optimizer.learning_rate,
        "adam_beta1": optimizer.beta1,
        "adam_beta2": optimizer.beta2,
        "weight_decay": optimizer.weight_decay,
        "max_grad_norm": optimizer.max_grad_norm,
        "warmup_steps": optimizer.warmup_updates * steps,
        "lr_scheduler_type": "constant_with_warmup",
    }
    if optimizer.schedule == "cosine":
        settings["lr_scheduler_type"] = "cosine_with_min_lr"
        settings["lr_scheduler_kwargs"] = {"min_lr_rate": 0.1}
    return settings


def _evaluation(config: RlConfig) -> Settings:
    held_out = config.evaluate
    if held_out is None:
        return {"eval_strategy": "no"}
    every = held_out.every or config.num_updates
    return {
        "eval_strategy": "steps",
        "eval_steps": every * config.algorithm.minibatches * config.algorithm.epochs,
        "eval_on_start": held_out.before,
        "num_generations_eval": held_out.samples,
        "per_device_eval_batch_size": held_out.samples * max(1, 32 // held_out.samples),
    }
