"""Train and judge language-model agents where they act, and trust the numbers.

The public names are those in `__all__`; each is imported on first use, so that
`import practicum` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "practicum.core.task": ("Panel", "Task"),
    "practicum.core.message": ("Action", "Image", "Message", "Observation"),
    "practicum.core.commands": ("Command",),
    "practicum.core.env": ("Decision", "Env", "Environment", "Script", "StepResult"),
    "practicum.core.agent": ("Act", "Agent", "Policy", "Prompt", "Sampling", "Situation"),
    "practicum.core.episode": (
        "Completion",
        "Episode",
        "FormatError",
        "FormatErrorKind",
        "Group",
        "StopReason",
        "Turn",
    ),
    "practicum.core.reward": ("Reward", "RewardFn"),
    "practicum.core.errors": (
        "ConfigError",
        "EnvError",
        "EpisodeError",
        "ErrorInfo",
        "MachineError",
        "PolicyError",
        "PracticumError",
        "RewardError",
        "StoreError",
    ),
    "practicum.store.run": ("Run",),
    "practicum.envs.registry": ("load_env",),
    "practicum.envs.contract": ("check_env",),
    "practicum.agents.chat": ("ChatAgent",),
    "practicum.agents.format": ("ActionFormat",),
    "practicum.agents.formats": ("get_format",),
    "practicum.agents.policy_spec": ("make_policy",),
    "practicum.rewards.outcome": ("judge_outcome",),
    "practicum.rollout.play": (
        "Attempt",
        "Limits",
        "Slots",
        "Table",
        "play_episode",
        "play_group",
        "play_many",
    ),
}

_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)  # noqa: PLE0605 - computed, and pinned by a test


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'practicum' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return list(__all__)
