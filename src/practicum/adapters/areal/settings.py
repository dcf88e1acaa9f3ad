"""What a workflow can be told: the keys of AReaL's `workflow_kwargs`."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from practicum.config.base import StrictConfig
from practicum.config.eval import LimitsConfig, SamplingConfig


class WorkflowSettings(StrictConfig):
    """What is played, how the agent answers, and how far an episode may go."""

    env: str
    """An id of `practicum envs`."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Settings of the environment itself."""
    format: str = "react"
    """The action format."""
    sampling: SamplingConfig = SamplingConfig()
    limits: LimitsConfig = LimitsConfig()
    dense: float = Field(0.0, ge=0, lt=1)
    """What all milestones together pay an episode that does not succeed; success pays 1."""
    retries: int = Field(1, ge=0)
    """A broken episode is played again this often, each time on a fresh world."""
    episode_timeout_s: float = Field(3600, gt=0)
    """For one attempt; AReaL itself sets no limit."""


class RolloutSettings(WorkflowSettings):
    """What a workflow on the engine itself needs besides."""

    model: str
    """A folder or the name of a model on the hub: its tokenizer, chat template and processor."""
    max_context: int = Field(2048, ge=16)
    """Tokens of one episode, prompt, pictures and answers together."""
    group_size: int = Field(1, ge=1)
    """Episodes per task, played here and handed over as one batch of that many rows."""
    min_judged: int | None = Field(None, ge=2)
    """A group with fewer judged episodes is withdrawn; unset: half its size, at least two."""


WAA_DEFAULTS: dict[str, Any] = {
    "env": "desktop",
    "format": "json",
    "dense": 0.5,
    "limits": {"turn_timeout_s": 900},
}
"""Waiting for a desktop is part of opening it, which one call of the environment is."""
WAA_OPTIONS: dict[str, Any] = {"view": "screenshot", "coordinates": "unit"}
OSWORLD_DEFAULTS: dict[str, Any] = {
    "env": "desktop",
    "format": "react",
    "limits": {"turn_timeout_s": 900},
}
OSWORLD_OPTIONS: dict[str, Any] = {
    "view": "screenshot",
    "actions": "pyautogui",
    "screen": "1920x1080",
}
