"""What an evaluation can be told."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from practicum.config.base import StrictConfig
from practicum.config.engines import HfConfig, VllmConfig


class SamplingConfig(StrictConfig):
    """How the policy draws its answers."""

    temperature: float = Field(1.0, ge=0, le=10)
    top_p: float = Field(1.0, gt=0, le=1)
    max_tokens: int = Field(512, ge=1)
    """Limit for one answer."""


class LimitsConfig(StrictConfig):
    """How far an episode may go, and how long one call may take."""

    max_turns: int | None = Field(None, ge=1)
    """Unset: the environment's documented horizon."""
    turn_timeout_s: float = Field(60, gt=0)
    """For one call of the environment."""
    answer_timeout_s: float = Field(600, gt=0)
    """For one answer of the policy, its retries included."""
    max_repeated_refusals: int | None = Field(None, ge=2)
    """Ends an episode whose same action was refused this many times while nothing else happened;
    unset: never."""


class EndpointConfig(StrictConfig):
    """How an OpenAI-compatible endpoint is asked."""

    attempts: int = Field(5, ge=1)
    """Tries per answer, the first one included."""
    request_timeout_s: float = Field(120, gt=0)
    """For one try."""
    longest_wait_s: float = Field(60, gt=0)
    """Between two tries; a server that asks for more is given up on."""
    logprobs: bool = False
    """Ask for the log-probability of each sampled token."""
    token_ids: bool = False
    """Ask for token ids (vLLM's `return_token_ids`)."""
    seed: bool = False
    """Send a seed with each request; not every server takes one."""


class EvalConfig(StrictConfig):
    """One evaluation: a policy on a panel of tasks."""

    env: str
    """An id of `practicum envs`."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Settings of the environment itself, as in `options.reward=f1`."""
    policy: str
    """`expert`, `random`, `replay:RUN`, `openai:MODEL@BASE_URL`, `hf:PATH`, `vllm:PATH`."""
    panel: str = "test"
    samples: int = Field(1, ge=1)
    """Episodes per task."""
    seed: int = Field(0, ge=0)
    format: str = "react"
    """The action format."""
    max_images: int | None = Field(None, ge=1)
    """Send only the newest pictures of an episode; unset: all, and messages are append-only."""
    concurrency: int = Field(16, ge=1)
    """Episodes under way at once."""
    server: str | None = None
    """Play against an environment server instead of in this process."""
    max_tasks: int | None = Field(None, ge=1)
    """Take only the first tasks of the panel; the report says so."""
    trained_on: str | None = None
    """A panel of the environment, or a file of task ids, that the policy was trained on."""
    sampling: SamplingConfig = SamplingConfig()
    limits: LimitsConfig = LimitsConfig()
    endpoint: EndpointConfig = EndpointConfig()
    hf: HfConfig = HfConfig()
    vllm: VllmConfig = VllmConfig()
