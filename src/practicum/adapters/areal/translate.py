"""A run config of ours in AReaL's words. What AReaL cannot do as asked is refused by name."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from practicum.adapters.areal.settings import WAA_DEFAULTS
from practicum.adapters.exporting import refuse_ignored
from practicum.config.algorithms import DapoConfig, GrpoConfig, GspoConfig
from practicum.config.train import RlConfig
from practicum.core.errors import ConfigError

Settings = dict[str, Any]

MODULE = "practicum.adapters.areal"
FILTER = f"{MODULE}.filters.teaches"
USED = (
    *("env", "options", "panel", "difficulties", "max_tasks", "format", "limits", "seed"),
    *("model.path", "model.max_context", "model.gradient_checkpointing", "num_updates"),
    *(f"groups.{key}" for key in ("size", "per_update", "max_per_update", "variants")),
    *("groups.retries", "groups.min_judged", "overlap", "checkpoints.every", "trackers"),
    *(f"algorithm.{key}" for key in ("name", "clip_low", "clip_high", "minibatches", "scale")),
    *("algorithm.mismatch_cap", "optimizer", "packing.pack_tokens", "sampler.slots"),
    *("sampling.temperature", "sampling.max_tokens"),
    *(f"evaluate.{key}" for key in ("panel", "samples", "max_tasks", "every", "temperature")),
    *(f"evaluate.{key}" for key in ("max_turns", "max_repeated_refusals", "before")),
)
"""Settings that mean in AReaL what they mean here; any other that is set is refused."""

ALGORITHMS = (GrpoConfig, DapoConfig, GspoConfig)
DESKTOP_DEFAULTS = {"view": "tree", "coordinates": "pixels", "actions": "commands"}
"""Written out, because the ready workflows for desktops have others."""
DESKTOP_PATHS = ("ca_file", "osworld_python", "judge_cache")
PICTURE_VIEWS = ("screenshot", "both")
NAMES = {"experiment_name": "${experiment_name}", "trial_name": "${trial_name}"}
FILES = {**NAMES, "fileroot": "${cluster.fileroot}"}


def refuse(config: RlConfig) -> None:
    """Raise `ConfigError` for what AReaL would ignore or does otherwise."""
    refuse_ignored(config, "AReaL", USED)
    algorithm, groups = config.algorithm, config.groups
    if not isinstance(algorithm, ALGORITHMS):
        raise ConfigError(
            f"algorithm.name={algorithm.name} has no counterpart here: take grpo, dapo or gspo"
        )
    if groups.max_per_update not in (None, groups.per_update):
        raise ConfigError(
            f"groups.max_per_update={groups.max_per_update}: AReaL sets no limit to the groups it "
            "plays for an update. Leave it out and groups without variance are replaced until "
            "enough teach, or set it to groups.per_update and exactly those are played"
        )


def shows_pictures(config: RlConfig) -> bool:
    """Whether observations hold pictures."""
    return config.env == "desktop" and config.options.get("view") in PICTURE_VIEWS


def workflow_of(config: RlConfig) -> str:
    """The name of the class that plays the environment, without its ending."""
    if config.env == "desktop" and str(config.options.get("body", "")).startswith("waa+"):
        return "WAADesktop"
    if config.env == "desktop" and config.options.get("actions") == "pyautogui":
        return "OSWorld"
    return "Practicum"


def workflow_settings(config: RlConfig) -> Settings:
    """What a workflow of either kind is told in training."""
    settings: Settings = {
        "env": config.env,
        "options": _desktop_options(config) if config.env == "desktop" else dict(config.options),
        "format": config.format,
        "sampling": config.sampling.model_dump(),
        "limits": config.limits.model_dump(exclude_none=True),
        "retries": config.groups.retries,
    }
    if workflow_of(config) == "WAADesktop":
        settings["dense"] = WAA_DEFAULTS["dense"]
    return settings


def _desktop_options(config: RlConfig) -> Settings:
    options = DESKTOP_DEFAULTS | config.options
    for key in DESKTOP_PATHS:
        if key in options:
            options[key] = str(Path(options[key]).expanduser().absolute())
    # Rows hold tasks by their content.
    options.pop("tasks_path", None)
    return options


def engine_settings(config: RlConfig, model: str) -> Settings:
    """What a workflow on the engine itself is told besides."""
    settings: Settings = {
        "model": model,
        "max_context": config.model.max_context,
        "group_size": config.groups.size,
    }
    if config.groups.min_judged is not None:
        settings["min_judged"] = config.groups.min_judged
    return settings


def held_out_settings(config: RlConfig) -> Settings:
    """What a workflow of either kind is told in evaluation."""
    held_out = config.evaluate
    assert held_out is not None
    settings = workflow_settings(config)
    limits = config.limits.model_copy(
        update={
            "max_turns": held_out.max_turns,
            "max_repeated_refusals": held_out.max_repeated_refusals,
        }
    )
    settings["limits"] = limits.model_dump(exclude_none=True)
    settings["sampling"] = {**settings["sampling"], "temperature": held_out.temperature}
    return settings


def areal_settings(config: RlConfig, model: str, name: str, num_rows: int) -> Settings:
    """What differs from AReaL's defaults, with the workflow on the engine itself.

    `num_rows` are the rows of the training table.
    """
    refuse(config)
    kind = workflow_of(config)
    num_epochs = math.ceil(config.num_updates / (num_rows // config.groups.per_update))
    settings: Settings = {
        "experiment_name": name,
        "trial_name": "trial0",
        "seed": config.seed,
        "total_train_epochs": num_epochs,
        "total_train_steps": config.num_updates,
        "tokenizer_path": "${actor.path}",
        "workflow": f"{MODULE}.rollout.{kind}Rollout",
        "workflow_kwargs": workflow_settings(config) | engine_settings(config, model),
        "accept": FILTER if config.groups.max_per_update is None else None,
        "cluster": {"n_nodes": 1, "n_gpus_per_node": 2},
        "scheduler": {"type": "local"},
        "gconfig": {
            # The workflow plays whole groups, so that a broken episode costs its group nothing.
            "n_samples": 1,
            "max_new_tokens": config.sampling.max_tokens,
            "max_tokens": config.model.max_context,
            "temperature": config.sampling.temperature,
        },
        "rollout": _rollout(config),
        "actor": _actor(config, model, num_epochs * (num_rows // config.groups.per_update)),
        "sglang": {
            "model_path": "${actor.path}",
            "random_seed": config.seed,
            "context_length": config.model.max_context,
            "mem_fraction_static": 0.8,
            # An episode's next prompt begins with the last one.
            "disable_radix_cache": False,
            "enable_multimodal": shows_pictures(config),
        },
        "train_dataset": {
            "batch_size": config.groups.per_update,
            "shuffle": True,
            "type": "rl",
            "path": "???",
            "scheduling_spec": None,
        },
        "saver": {**FILES, "freq_steps": config.checkpoints.every},
        "recover": {**FILES, "mode": "auto", "freq_steps": config.checkpoints.every},
        "evaluator": {**FILES},
        "stats_logger": {**FILES, **_trackers(config)},
    }
    if config.evaluate is not None:
        _add_held_out(settings, config, model)
    return settings


def proxy_settings(config: RlConfig, settings: Settings) -> Settings:
    """The same with the agent workflow, through AReaL's proxy."""
    size = config.groups.size
    changed: Settings = {
        **settings,
        "workflow": f"{MODULE}.agent.{workflow_of(config)}Workflow",
        "workflow_kwargs": workflow_settings(config),
        # AReaL plays the groups: of one that an episode breaks in, nothing is kept.
        "gconfig": {**settings["gconfig"], "n_samples": size},
        "rollout": {
            **settings["rollout"],
            "agent": {
                "agent_cls_path": f"{MODULE}.agent.{workflow_of(config)}Workflow",
                "mode": "inline",
                # Both, so that the turns of an episode are one sequence.
                "chat_template_type": "concat",
                "export_style": "concat",
                "engine_max_tokens": config.model.max_context,
                # What an episode earned is the reward of its one sequence.
                "turn_discount": 1.0,
            },
        },
    }
    if config.evaluate is not None:
        changed["eval_workflow_kwargs"] = held_out_settings(config)
    return changed


def _rollout(config: RlConfig) -> Settings:
    return {
        **FILES,
        "backend": "sglang:d1",
        "tokenizer_path": "${tokenizer_path}",
        # AReaL counts rows of the table, each of them a group.
        "max_concurrent_rollouts": max(1, config.sampler.slots // config.groups.size),
        "consumer_batch_size": "${train_dataset.batch_size}",
        "max_head_offpolicyness": config.max_staleness,
        "scheduling_spec": "${actor.scheduling_spec}",
        "dump_to_file": False,
    }


def _actor(config: RlConfig, model: str, num_steps: int) -> Settings:
    algorithm, optimizer = config.algorithm, config.optimizer
    assert isinstance(algorithm, ALGORITHMS)
    is_scaled = algorithm.scale == "std"
    settings: Settings = {
        **NAMES,
        "backend": "fsdp:d1",
        "path": model,
        "temperature": config.sampling.temperature,
        "gradient_checkpointing": config.model.gradient_checkpointing,
        "mb_spec": {"max_tokens_per_mb": config.packing.pack_tokens},
        "optimizer": {
            "type": "adam",
            "lr": optimizer.learning_rate,
            "beta1": optimizer.beta1,
            "beta2": optimizer.beta2,
            "weight_decay": optimizer.weight_decay,
            "gradient_clipping": optimizer.max_grad_norm,
            "lr_scheduler_type": optimizer.schedule,
            "min_lr_ratio": 0.1,
            "warmup_steps_proportion": optimizer.warmup_updates / num_steps,
        },
        "eps_clip": algorithm.clip_low,
        "eps_clip_higher": algorithm.clip_high,
        "importance_sampling_level": "sequence" if algorithm.name == "gspo" else "token",
        "ppo_n_minibatches": algorithm.minibatches,
        "reward_norm": {
            "mean_level": "group",
            "std_level": "group" if is_scaled else None,
            "group_size": config.groups.size,
        },
        "adv_norm": None,
        "kl_ctl": 0.0,
        "recompute_logprob": True,
        "use_decoupled_loss": algorithm.mismatch_cap is not None,
        "max_new_tokens": config.sampling.max_tokens,
        "scheduling_spec": [
            {"gpu": 1, "cpu": 4, "mem": 32, "cmd": "python3 -m areal.infra.rpc.rpc_server"}
        ],
    }
    if algorithm.mismatch_cap is not None:
        settings["rejection_sampling"] = {
            "level": "token",
            "action": "clamp",
            "metric": "ratio",
            "upper": algorithm.mismatch_cap,
        }
    return settings


def _trackers(config: RlConfig) -> Settings:
    trackers: Settings = {}
    if "wandb" in config.trackers:
        trackers["wandb"] = {"mode": "online"}
    if "tensorboard" in config.trackers:
        trackers["tensorboard"] = {"path": "${cluster.fileroot}/tensorboard"}
    return trackers


def _add_held_out(settings: Settings, config: RlConfig, model: str) -> None:
    held_out = config.evaluate
    assert held_out is not None
    settings["eval_workflow_kwargs"] = held_out_settings(config) | {
        "model": model,
        "max_context": config.model.max_context,
    }
    settings["eval_gconfig"] = {
        **settings["gconfig"],
        "n_samples": held_out.samples,
        "temperature": held_out.temperature,
    }
    settings["valid_dataset"] = {
        "batch_size": 32,
        "type": "rl",
        "path": "???",
        "scheduling_spec": None,
    }
    every = held_out.every or config.num_updates
    settings["evaluator"] |= {"freq_steps": every, "eval_before_train": held_out.before}
