"""A run config of ours in verl's words. What verl cannot do as asked is refused by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from practicum.adapters.exporting import answer_room, refuse_ignored
from practicum.adapters.verl.rows import AGENT_NAME
from practicum.config.algorithms import (
    DapoConfig,
    DrGrpoConfig,
    GrpoConfig,
    GspoConfig,
    PpoConfig,
)
from practicum.config.train import RlConfig
from practicum.core.errors import ConfigError

Settings = dict[str, Any]

USED = (
    *("env", "options", "panel", "difficulties", "max_tasks", "format", "limits", "seed"),
    *(f"mixture.envs.*.{key}" for key in (
        *("env", "weight", "options", "panel", "difficulties", "max_tasks", "variants", "limits"),
        *(f"evaluate.{key}" for key in ("panel", "max_tasks", "max_turns")),
    )),
    *("model.path", "model.max_context", "model.lora", "model.gradient_checkpointing"),
    *("groups.size", "groups.per_update", "groups.max_per_update", "groups.variants"),
    *("groups.retries", "groups.min_judged", "num_updates", "checkpoints", "trackers"),
    *("algorithm.name", "algorithm.clip_low", "algorithm.clip_high", "algorithm.minibatches"),
    *("algorithm.epochs", "algorithm.kl", "algorithm.mismatch_cap", "algorithm.scale"),
    *("algorithm.episode_tokens", "algorithm.level", "algorithm.gamma", "algorithm.gae_lambda"),
    *("algorithm.value_clip", "algorithm.value_learning_rate"),
    *("optimizer.learning_rate", "optimizer.beta1", "optimizer.beta2", "optimizer.weight_decay"),
    *("optimizer.max_grad_norm", "optimizer.warmup_updates", "optimizer.schedule"),
    *("packing.pack_tokens", "sampler", "sampling.temperature", "sampling.max_tokens"),
    *(f"evaluate.{key}" for key in ("panel", "samples", "max_tasks", "every", "temperature")),
    *(f"evaluate.{key}" for key in ("max_turns", "max_repeated_refusals", "before")),
)  # fmt: skip
"""Settings that mean in verl what they mean here; any other that is set is refused."""

MANY_EPOCHS = 1_000_000
"""verl stops at epochs or updates, whichever comes first: updates are to decide."""


def verl_settings(config: RlConfig, prompt_tokens: int, name: str) -> Settings:
    """All that differs from verl's defaults, for the longest prompt that there is."""
    refuse_ignored(config, "verl", USED)
    _refuse_others(config)
    answer_tokens = answer_room(config, prompt_tokens)
    parts = (
        _data(config, prompt_tokens, answer_tokens),
        _model(config),
        _rollout(config),
        _actor(config),
        ALGORITHMS[type(config.algorithm)](config),
        _trainer(config, name),
    )
    merged: Settings = {}
    for part in parts:
        _merge(merged, part)
    return merged


def _refuse_others(config: RlConfig) -> None:
    """Refuse what has a counterpart in verl only for some values."""
    algorithm, groups = config.algorithm, config.groups
    if type(algorithm) not in ALGORITHMS:
        raise ConfigError(
            f"algorithm.name={algorithm.name} has no counterpart in verl: take grpo, dr_grpo, "
            "dapo, gspo or ppo"
        )
    if groups.max_per_update not in (None, groups.per_update):
        raise ConfigError(
            f"groups.max_per_update={groups.max_per_update}: verl sets no limit to the groups it "
            "plays for an update. Leave it out and groups without variance are replaced until "
            "enough teach, or set it to groups.per_update and exactly those are played"
        )
    if groups.per_update % algorithm.minibatches:
        raise ConfigError(
            f"algorithm.minibatches={algorithm.minibatches} must divide groups.per_update="
            f"{groups.per_update}: verl's mini-batches are whole groups of equal number"
        )
    if config.optimizer.schedule == "linear":
        raise ConfigError("optimizer.schedule=linear: verl has constant and cosine")


def _data(config: RlConfig, prompt_tokens: int, answer_tokens: int) -> Settings:
    return {
        "data": {
            "train_batch_size": config.groups.per_update,
            "max_prompt_length": prompt_tokens,
            "max_response_length": answer_tokens,
            "return_raw_chat": True,
            "shuffle": True,
            "seed": config.seed,
            # Prompts were measured; one that does not fit must stop the run, not disappear.
            "filter_overlong_prompts": False,
            "truncation": "error",
        }
    }


def _model(config: RlConfig) -> Settings:
    lora = config.model.lora
    model: Settings = {
        "path": config.model.path,
        "enable_gradient_checkpointing": config.model.gradient_checkpointing,
        "use_remove_padding": True,
    }
    if lora is not None:
        model |= {
            "lora_rank": lora.rank,
            "lora_alpha": lora.alpha,
            "target_modules": lora.targets,
        }
    return {"actor_rollout_ref": {"model": model}}


def _rollout(config: RlConfig) -> Settings:
    sampling, sampler, held_out = config.sampling, config.sampler, config.evaluate
    rollout: Settings = {
        "name": "vllm",
        "n": config.groups.size,
        "temperature": sampling.temperature,
        "top_p": 1.0,
        "top_k": -1,
        "seed": config.seed,
        # What is trained is what was sampled: the sampler's own numbers come along.
        "calculate_log_probs": True,
        "tensor_model_parallel_size": 1,
        "max_model_len": config.model.max_context,
        "max_num_seqs": sampler.slots,
        "max_num_batched_tokens": max(sampler.prefill_rows, config.model.max_context),
        "enforce_eager": not sampler.cuda_graphs,
        "agent": {"default_agent_loop": AGENT_NAME},
    }
    if held_out is not None:
        rollout["val_kwargs"] = {
            "n": held_out.samples,
            "temperature": held_out.temperature,
            "top_p": 1.0,
            "top_k": -1,
            "do_sample": held_out.temperature > 0,
        }
    return {"actor_rollout_ref": {"rollout": rollout}}


def _actor(config: RlConfig) -> Settings:
    algorithm, optimizer = config.algorithm, config.optimizer
    actor: Settings = {
        "strategy": "fsdp2",
        "ppo_mini_batch_size": config.groups.per_update // algorithm.minibatches,
        "ppo_epochs": algorithm.epochs,
        "use_dynamic_bsz": True,
        "ppo_max_token_len_per_gpu": config.packing.pack_tokens,
        "clip_ratio_low": algorithm.clip_low,
        "clip_ratio_high": algorithm.clip_high,
        "loss_agg_mode": "token-mean",
        "grad_clip": optimizer.max_grad_norm,
        "optim": _optimizer(config, optimizer.learning_rate),
    }
    if algorithm.kl > 0:
        actor |= {
            "use_kl_loss": True,
            "kl_loss_coef": algorithm.kl,
            "kl_loss_type": "low_var_kl",
        }
    correction = {} if algorithm.mismatch_cap is None else {
        "rollout_is": "token",
        "rollout_is_threshold": algorithm.mismatch_cap,
    }  # fmt: skip
    settings: Settings = {"actor_rollout_ref": {"actor": actor}}
    if correction:
        settings["algorithm"] = {"rollout_correction": correction}
    return settings


def _optimizer(config: RlConfig, learning_rate: float) -> Settings:
    optimizer = config.optimizer
    settings: Settings = {
        "lr": learning_rate,
        "betas": [optimizer.beta1, optimizer.beta2],
        "weight_decay": optimizer.weight_decay,
        "lr_warmup_steps": optimizer.warmup_updates,
        "lr_scheduler_type": optimizer.schedule,
    }
    if optimizer.schedule == "cosine":
        settings["min_lr_ratio"] = 0.1
    return settings


def _centred(config: RlConfig, scale: str) -> Settings:
    """GRPO's advantages; groups without variance are replaced unless all are to be played."""
    is_filtered = config.groups.max_per_update is None
    return {
        "algorithm": {
            "adv_estimator": "grpo",
            "norm_adv_by_std_in_grpo": scale == "std",
            "filter_groups": {"enable": is_filtered, "metric": "reward"},
        },
        "critic": {"enable": False},
    }


def _grpo(config: RlConfig) -> Settings:
    assert isinstance(config.algorithm, GrpoConfig | DapoConfig)
    return _centred(config, config.algorithm.scale)


def _dr_grpo(config: RlConfig) -> Settings:
    assert isinstance(config.algorithm, DrGrpoConfig)
    loss = {
        "loss_agg_mode": "seq-mean-token-sum-norm",
        "loss_scale_factor": config.algorithm.episode_tokens,
    }
    return {**_centred(config, "none"), "actor_rollout_ref": {"actor": loss}}


def _gspo(config: RlConfig) -> Settings:
    assert isinstance(config.algorithm, GspoConfig)
    loss = {"policy_loss": {"loss_mode": "gspo"}, "loss_agg_mode": "seq-mean-token-mean"}
    return {**_centred(config, config.algorithm.scale), "actor_rollout_ref": {"actor": loss}}


def _ppo(config: RlConfig) -> Settings:
    algorithm = config.algorithm
    assert isinstance(algorithm, PpoConfig)
    if algorithm.level != "token":
        raise ConfigError(
            "algorithm.level=turn: verl hands credit on per token; write algorithm.level=token"
        )
    if algorithm.value_clip is None:
        raise ConfigError("algorithm.value_clip=null: verl always clips values; give it a number")
    return {
        "algorithm": {
            "adv_estimator": "gae",
            "gamma": algorithm.gamma,
            "lam": algorithm.gae_lambda,
        },
        "critic": {
            "enable": True,
            "strategy": "fsdp2",
            "model": {"path": config.model.path, "use_remove_padding": True},
            "optim": _optimizer(config, algorithm.value_rate(config.optimizer.learning_rate)),
            "cliprange_value": algorithm.value_clip,
            "grad_clip": config.optimizer.max_grad_norm,
            "ppo_max_token_len_per_gpu": config.packing.pack_tokens,
        },
    }


ALGORITHMS: Mapping[type, Callable[[RlConfig], Settings]] = {
    GrpoConfig: _grpo,
    DrGrpoConfig: _dr_grpo,
    DapoConfig: _grpo,
    GspoConfig: _gspo,
    PpoConfig: _ppo,
}


def _trainer(config: RlConfig, name: str) -> Settings:
    held_out = config.evaluate
    every = -1 if held_out is None else held_out.every or config.num_updates
    return {
        "trainer": {
            # A broken episode is left out of its group in this trainer alone; see docs/verl.md.
            "use_v1": True,
            "v1": {"trainer_mode": "sync"},
            "project_name": "practicum",
            "experiment_name": name,
            "logger": ["console", *config.trackers],
            "total_training_steps": config.num_updates,
            "total_epochs": MANY_EPOCHS,
            "val_before_train": held_out is not None and held_out.before,
            "test_freq": every,
            "save_freq": config.checkpoints.every,
            "max_actor_ckpt_to_keep": config.checkpoints.keep,
            "max_critic_ckpt_to_keep": config.checkpoints.keep,
            "n_gpus_per_node": 1,
            "nnodes": 1,
        }
    }


def _merge(into: Settings, other: Mapping[str, Any]) -> None:
    for key, value in other.items():
        if isinstance(value, Mapping) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value
