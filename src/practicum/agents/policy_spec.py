"""Policies by what a user types, such as `expert` or `openai:MODEL@BASE_URL`."""

from __future__ import annotations

import os
from pathlib import Path

from practicum.agents.format import ActionFormat
from practicum.config.engines import HfConfig, VllmConfig
from practicum.config.eval import EndpointConfig
from practicum.core.agent import Policy
from practicum.core.env import Decision, Environment
from practicum.core.errors import ConfigError, unknown_name
from practicum.core.retry import Backoff

API_KEY_VARIABLE = "OPENAI_API_KEY"
_PREFIXES = ("replay:RUN", "openai:MODEL@BASE_URL", "hf:PATH", "vllm:PATH")


def make_policy(
    spec: str,
    environment: Environment,
    action_format: ActionFormat,
    endpoint: EndpointConfig,
    hf: HfConfig | None = None,
    vllm: VllmConfig | None = None,
    concurrency: int = 16,
) -> Policy:
    """Make the policy a spec asks for; a spec that means nothing is a `ConfigError`.

    A model in this process is set up for `concurrency` episodes at once.
    """
    kind, colon, rest = spec.partition(":")
    if not colon and spec in environment.scripts:
        from practicum.policies.scripted import ScriptedPolicy

        def render(decision: Decision) -> str:
            return action_format.render(decision, environment.commands)

        return ScriptedPolicy(environment.scripts[spec], render)
    if kind == "replay" and rest:
        from practicum.policies.replay import ReplayPolicy
        from practicum.store.run import Run

        return ReplayPolicy(Run.open(Path(rest)).episodes())
    if kind == "openai" and rest:
        return _make_endpoint(spec, rest, endpoint)
    if kind == "hf" and rest:
        return _make_local(rest, hf or HfConfig(), concurrency)
    if kind == "vllm" and rest:
        from practicum.policies.vllm_policy import VllmPolicy

        return VllmPolicy(Path(rest), vllm or VllmConfig())
    raise unknown_name("policy", spec, [*environment.scripts, *_PREFIXES])


def _make_local(path: str, config: HfConfig, concurrency: int) -> Policy:
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


def _make_endpoint(spec: str, rest: str, config: EndpointConfig) -> Policy:
    model, at, base_url = rest.rpartition("@")
    if not at or not model or not base_url.startswith(("http://", "https://")):
        raise ConfigError(
            f"policy {spec!r} must read openai:MODEL@BASE_URL, "
            "as in openai:qwen3-4b@http://localhost:8000/v1"
        )
    from practicum.policies.openai_endpoint import Endpoint, OpenAIPolicy

    return OpenAIPolicy(
        Endpoint(
            model=model,
            base_url=base_url,
            api_key=os.environ.get(API_KEY_VARIABLE),
            request_timeout_s=config.request_timeout_s,
            backoff=Backoff(config.attempts, longest_wait_s=config.longest_wait_s),
            wants_logprobs=config.logprobs,
            wants_token_ids=config.token_ids,
            sends_seed=config.seed,
        )
    )
