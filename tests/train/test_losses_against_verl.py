"""The same inputs give verl's numbers: every advantage and loss that both have.

Episodes are rows with gaps that the environment wrote. GiGPO and the corrected divergence are
not in verl; TRL is compared with in `test_losses_against_trl.py`.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Literal

import numpy as np
import pytest
import torch

if find_spec("verl") is None:
    pytest.skip(
        "verl lives in a virtual environment of its own: make test-verl", allow_module_level=True
    )

from verl.trainer.config import AlgoConfig
from verl.trainer.ppo import core_algos as theirs
from verl.workers.config import ActorConfig

from practicum.train.advantages import (
    discounted_returns,
    generalised_advantages,
    group_advantages,
    whitened,
)
from practicum.train.losses import (
    kl_penalty,
    policy_loss,
    sequence_policy_loss,
    token_mean,
    value_loss,
)

EPISODES, LENGTH, GROUP = 8, 12, 4
CLIP_LOW, CLIP_HIGH = 0.1, 0.15
REWARDS = np.array([1.0, 0.0, 0.25, 1.0, 0.0, 0.0, 0.5, 1.0])
GROUPS = np.repeat(np.arange(EPISODES // GROUP), GROUP)


def made_up(seed: int, mean: float, spread: float) -> torch.Tensor:
    random = np.random.default_rng(seed)
    return torch.tensor(random.normal(mean, spread, (EPISODES, LENGTH)), dtype=torch.float64)


@pytest.fixture
def mask() -> torch.Tensor:
    """What the model wrote: two stretches in each row, and nothing at the end of some."""
    is_written = torch.ones(EPISODES, LENGTH, dtype=torch.bool)
    for row in range(EPISODES):
        is_written[row, 2 + row % 4 : 4 + row % 4] = False
        is_written[row, 9 + row % 4 :] = False
    return is_written


def outcome_rewards(mask: torch.Tensor) -> torch.Tensor:
    """The reward at the last token that the model wrote."""
    rewards = torch.zeros(EPISODES, LENGTH, dtype=torch.float64)
    for row in range(EPISODES):
        rewards[row, mask[row].nonzero()[-1]] = REWARDS[row]
    return rewards


def spread_over(values_E: np.ndarray, mask: torch.Tensor) -> torch.Tensor:
    return torch.tensor(values_E)[:, None] * mask


def by_group(**options: Any) -> np.ndarray:
    groups = REWARDS.reshape(-1, GROUP).tolist()
    return np.concatenate([group_advantages(group, **options).values for group in groups])


def actor(mode: str, name: str) -> ActorConfig:
    return ActorConfig(
        strategy="fsdp",
        rollout_n=1,
        ppo_micro_batch_size_per_gpu=1,
        clip_ratio_low=CLIP_LOW,
        clip_ratio_high=CLIP_HIGH,
        clip_ratio_c=1e6,  # a bound that PPO's paper does not have
        loss_agg_mode=mode,
        policy_loss={"loss_mode": name},
    )


@pytest.mark.parametrize("scale", ["none", "std"])
def test_group_advantages(mask: torch.Tensor, scale: Literal["none", "std"]) -> None:
    expected, _ = theirs.compute_grpo_outcome_advantage(
        outcome_rewards(mask), mask, GROUPS, epsilon=1e-4, norm_adv_by_std_in_grpo=scale == "std"
    )
    torch.testing.assert_close(spread_over(by_group(scale=scale), mask), expected)


def test_leave_one_out(mask: torch.Tensor) -> None:
    expected, _ = theirs.compute_rloo_outcome_advantage(outcome_rewards(mask), mask, GROUPS)
    torch.testing.assert_close(spread_over(by_group(baseline="others"), mask), expected)


@pytest.mark.parametrize("has_baseline", [False, True])
def test_reinforce_pp(mask: torch.Tensor, has_baseline: bool) -> None:
    rewards = outcome_rewards(mask)
    if has_baseline:
        compare = theirs.compute_reinforce_plus_plus_baseline_outcome_advantage
        expected, _ = compare(rewards, mask, GROUPS)
        worth = spread_over(by_group(), mask)
    else:
        rewards[:, 1] = 0.125  # a turn that paid on the way
        compare = theirs.compute_reinforce_plus_plus_outcome_advantage
        expected, _ = compare(rewards, mask.double(), AlgoConfig(gamma=1.0))
        worth = torch.zeros_like(rewards)
        for row in range(EPISODES):
            worth[row, mask[row]] = torch.tensor(
                discounted_returns(rewards[row, mask[row]].tolist(), 1.0)
            )
    ours = torch.tensor(whitened(worth[mask].numpy()))
    torch.testing.assert_close(ours, expected[mask])


def test_generalised_advantages(mask: torch.Tensor) -> None:
    rewards, values = outcome_rewards(mask), made_up(1, 0.4, 0.3)
    rewards[:, 1] = 0.125
    expected, expected_returns = theirs.compute_gae_advantage_return(
        rewards, values, mask.double(), 0.97, 0.9
    )
    advantages, returns = [], []
    for row in range(EPISODES):
        of_row = generalised_advantages(
            values[row, mask[row]].tolist(),
            rewards[row, mask[row]].tolist(),
            gamma=0.97,
            gae_lambda=0.9,
        )
        advantages.append(of_row[0])
        returns.append(of_row[1])
    ours = torch.tensor(whitened(np.concatenate(advantages)))
    torch.testing.assert_close(ours, expected[mask])
    torch.testing.assert_close(torch.tensor(np.concatenate(returns)), expected_returns[mask])


def same_with_gradient(ours: torch.Tensor, expected: torch.Tensor, of: torch.Tensor) -> None:
    assert expected.abs() > 1e-3
    torch.testing.assert_close(ours, expected)
    ours_grad, expected_grad = (torch.autograd.grad(loss, of)[0] for loss in (ours, expected))
    assert expected_grad.abs().max() > 1e-3
    torch.testing.assert_close(ours_grad, expected_grad)


@pytest.mark.parametrize("mode", ["token-mean", "seq-mean-token-sum-norm"])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_policy_loss(mask: torch.Tensor, mode: str, is_weighted: bool) -> None:
    old, new = made_up(2, -2, 0.5), made_up(3, -2, 0.5).requires_grad_()
    advantages = spread_over(by_group(), mask)
    weights = made_up(4, 1, 0.2).abs() if is_weighted else None
    expected, metrics = theirs.compute_policy_loss_vanilla(
        old, new, advantages, mask, mode, actor(mode, "vanilla"), weights
    )
    assert metrics["actor/pg_clipfrac"] > 0
    loss = policy_loss(
        new, old, advantages, clip_low=CLIP_LOW, clip_high=CLIP_HIGH, weights_N=weights
    )
    # A mean over tokens is GRPO's and DAPO's, a constant for every episode Dr. GRPO's.
    count = int(mask.sum()) if mode == "token-mean" else EPISODES * LENGTH
    same_with_gradient(token_mean(loss, count, mask), expected, new)


def test_gspo(mask: torch.Tensor) -> None:
    old, new = made_up(2, -2, 0.4), made_up(3, -2, 0.4).requires_grad_()
    advantages = spread_over(by_group(scale="std"), mask)
    mode = "seq-mean-token-mean"
    expected, metrics = theirs.compute_policy_loss_gspo(
        old, new, advantages, mask, mode, actor(mode, "gspo")
    )
    assert 0 < metrics["actor/pg_clipfrac"] < 1
    rows = torch.arange(EPISODES)[:, None].expand_as(mask)
    loss = sequence_policy_loss(
        new[mask],
        old[mask],
        advantages[mask],
        rows[mask],
        clip_low=CLIP_LOW,
        clip_high=CLIP_HIGH,
        is_mean=True,
    )
    same_with_gradient(loss.sum() / EPISODES, expected, new)


def test_value_loss(mask: torch.Tensor) -> None:
    old, returns = made_up(5, 0.5, 0.3), made_up(6, 0.5, 0.3)
    new = made_up(7, 0.5, 0.3).requires_grad_()
    expected, clipped = theirs.compute_value_loss(new, returns, old, mask, 0.2)
    assert clipped > 0
    ours = token_mean(value_loss(new, old, returns, 0.2), int(mask.sum()), mask)
    same_with_gradient(ours, expected, new)


def test_divergence(mask: torch.Tensor) -> None:
    new, reference = made_up(8, -2, 0.5).requires_grad_(), made_up(9, -2, 0.5)
    expected = theirs.agg_loss(theirs.kl_penalty(new, reference, "k3"), mask, "token-mean")
    ours = token_mean(kl_penalty(new, reference), int(mask.sum()), mask)
    same_with_gradient(ours, expected, new)
