"""Models by what a user types: `openai:MODEL@BASE_URL`, `hf:PATH`, `vllm:PATH`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from practicum.config.engines import HfConfig, VllmConfig
from practicum.config.eval import EndpointConfig
from practicum.core.errors import ConfigError
from practicum.core.retry import Backoff

if TYPE_CHECKING:
    from practicum.policies.local.policy import HfPolicy
    from practicum.policies.openai_endpoint import Endpoint
    from practicum.policies.vllm_policy import VllmPolicy

API_KEY_VARIABLE = "OPENAI_API_KEY"
MODEL_SPECS = ("openai:MODEL@BASE_URL", "hf:PATH", "vllm:PATH")


def read_endpoint(spec: str, config: EndpointConfig) -> Endpoint:
    """The endpoint that `openai:MODEL@BASE_URL` names; its key is in the environment."""
    model, at, base_url = spec.partition(":")[2].rpartition("@")
    if not at or not model or not base_url.startswith(("http://", "https://")):
        raise ConfigError(
            f"policy {spec!r} must read openai:MODEL@BASE_URL, "
            "as in openai:qwen3-4b@http://localhost:8000/v1"
        )
    from practicum.policies.openai_endpoint import Endpoint

    return Endpoint(
        model=model,
        base_url=base_url,
        api_key=os.environ.get(API_KEY_VARIABLE),
        request_timeout_s=config.request_timeout_s,
        backoff=Backoff(config.attempts, longest_wait_s=config.longest_wait_s),
        wants_logprobs=config.logprobs,
        wants_token_ids=config.token_ids,
        sends_seed=config.seed,
    )


def make_hf(path: str, config: HfConfig, concurrency: int) -> HfPolicy:
    """A model in this process, set up for so many answers at once."""
    try:
        from practicum.policies.local.engine import EngineOptions
        from practicum.policies.local.policy import HfPolicy
        from practicum.policies.local.weights import load_model
    except ImportError as error:
        raise ConfigError(
            f"policy hf:{path} needs {error.name}: pip install 'practicum[train]'"
        ) from error
    model = load_model(path, device=config.device, dtype=config.dtype)
    return HfPolicy(model, EngineOptions(concurrency, config.max_context))


def make_vllm(path: str, config: VllmConfig) -> VllmPolicy:
    """A model in vLLM's engine in this process."""
    from practicum.policies.vllm_policy import VllmPolicy

    return VllmPolicy(Path(path), config)
