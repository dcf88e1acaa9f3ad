"""Policies by what a user types."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from practicum.agents.formats import get_format
from practicum.agents.policy_spec import make_policy
from practicum.config.eval import EndpointConfig
from practicum.core.agent import Policy
from practicum.core.errors import ConfigError
from practicum.envs import registry


def make(spec: str) -> Policy:
    return make_policy(spec, registry.load_env("textcraft"), get_format("react"), EndpointConfig())


@pytest.mark.skipif(find_spec("vllm") is not None, reason="vLLM is installed here")
def test_a_vllm_policy_without_vllm_says_what_to_type() -> None:
    with pytest.raises(ConfigError, match=r"pip install 'vllm>=0\.24'"):
        make("vllm:some/model")


def test_an_unknown_policy_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="vllm:PATH"):
        make("vlm:some/model")
