"""An algorithm takes its own settings and names what it does not know as a user writes it."""

from __future__ import annotations

from typing import Any

import pytest

from practicum.config.base import read_config
from practicum.config.train import RlConfig
from practicum.core.errors import ConfigError

BASE: dict[str, Any] = {"env": "textcraft", "model": {"path": "craft-base"}}


def read(*overrides: str) -> RlConfig:
    return read_config(RlConfig, values=BASE, overrides=overrides)


def test_without_a_name_it_is_grpo() -> None:
    assert read().algorithm.name == "grpo"
    assert read("algorithm.negative_weight=0").algorithm.name == "grpo"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["algorithm.name=rlo"], "known names are 'grpo', 'dr_grpo', 'rloo'"),
        (["algorithm.name=rloo", "algorithm.scale=std"], "unknown key 'algorithm.scale': known:"),
        (["algorithm.kll=1"], "unknown key 'algorithm.kll': did you mean 'kl'"),
        (["algorithm.name=dr_grpo"], "key 'algorithm.episode_tokens' is missing"),
        (["algorithm.name=ppo", "algorithm.gamma=2"], "algorithm.gamma: input should be less"),
        (["dense=0.3"], "algorithm.name=grpo gives all turns of an episode the same credit"),
    ],
)
def test_what_does_not_fit_is_refused(overrides: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read(*overrides)


@pytest.mark.parametrize("name", ["ppo", "gigpo", "reinforce_pp"])
def test_algorithms_that_credit_turns_take_dense_rewards(name: str) -> None:
    assert read(f"algorithm.name={name}", "dense=0.3").dense == 0.3
