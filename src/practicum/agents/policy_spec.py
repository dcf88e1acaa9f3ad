"""Policies by what a user types, such as `expert` or `openai:MODEL@BASE_URL`."""

from __future__ import annotations

from pathlib import Path

from practicum.agents.format import ActionFormat
from practicum.config.engines import HfConfig, VllmConfig
from practicum.config.eval import EndpointConfig
from practicum.core.agent import Policy
from practicum.core.env import Decision, Environment
from practicum.core.errors import unknown_name
from practicum.policies.model_spec import MODEL_SPECS, make_hf, make_vllm, read_endpoint


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
        from practicum.policies.openai_endpoint import OpenAIPolicy

        return OpenAIPolicy(read_endpoint(spec, endpoint))
    if kind == "hf" and rest:
        return make_hf(rest, hf or HfConfig(), concurrency)
    if kind == "vllm" and rest:
        return make_vllm(rest, vllm or VllmConfig())
    raise unknown_name("policy", spec, [*environment.scripts, "replay:RUN", *MODEL_SPECS])
