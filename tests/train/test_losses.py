"""Losses are what the arithmetic says, pull the right way, and do not mind micro-batches."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from practicum.train.losses import (
    kl_penalty,
    logprobs_and_entropy,
    mismatch_metrics,
    policy_loss,
    policy_metrics,
    sft_loss,
    token_mean,
    truncated_weights,
)

CLIP = {"clip_low": 0.2, "clip_high": 0.3}


def logs(*probabilities: float) -> torch.Tensor:
    return torch.tensor(probabilities, dtype=torch.float64).log()


def token_logprobs(
    logits: torch.Tensor, targets: torch.Tensor, temperature: float = 1.0
) -> torch.Tensor:
    return logprobs_and_entropy(logits, targets, temperature)[0]


def near(tensor: torch.Tensor, *expected: float) -> bool:
    return torch.allclose(tensor.double(), torch.tensor(expected, dtype=torch.float64), atol=1e-7)


def test_logprobs_and_entropy_are_those_of_the_softmax() -> None:
    # Logits log 1, log 2, log 5 are probabilities 1/8, 2/8, 5/8; even logits are thirds.
    logits = torch.stack([logs(1, 2, 5), logs(4, 4, 4)])
    logprobs, entropy = logprobs_and_entropy(logits, torch.tensor([2, 0]))
    assert near(logprobs, math.log(5 / 8), math.log(1 / 3))
    by_hand = 1 / 8 * math.log(8) + 2 / 8 * math.log(4) + 5 / 8 * math.log(8 / 5)
    assert near(entropy, by_hand, math.log(3))


def test_temperature_divides_the_logits() -> None:
    # At temperature 2, weights 1, 4, 25 become their roots 1, 2, 5.
    assert near(token_logprobs(logs(1, 4, 25)[None], torch.tensor([1]), 2.0), math.log(2 / 8))


def test_a_token_ruled_out_does_not_spoil_the_entropy() -> None:
    logits = torch.tensor([[0.0, 0.0, -math.inf]])
    assert near(logprobs_and_entropy(logits, torch.tensor([0]))[1], math.log(2))


def test_half_precision_logits_are_read_in_single_precision() -> None:
    logits = torch.tensor([[1.0, 2.0, 3.0]])
    logprobs = token_logprobs(logits.bfloat16(), torch.tensor([0]))
    assert logprobs.dtype == torch.float32
    assert torch.equal(logprobs, token_logprobs(logits, torch.tensor([0])))


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_gradient_is_that_of_the_plain_softmax(dtype: torch.dtype, temperature: float) -> None:
    random = torch.Generator().manual_seed(0)
    drawn = torch.randn(5, 9, generator=random).to(dtype)
    drawn[2, 3] = -math.inf
    targets = torch.tensor([0, 8, 4, 4, 1])
    pull = torch.randn(5, generator=random)
    ours, plain = (drawn.clone().requires_grad_() for _ in range(2))
    (token_logprobs(ours, targets, temperature) * pull).sum().backward()
    wide = plain.to(torch.promote_types(dtype, torch.float32)) / temperature
    (wide.log_softmax(-1)[torch.arange(5), targets] * pull).sum().backward()
    assert ours.grad is not None and ours.grad.dtype == dtype
    assert torch.allclose(ours.grad, plain.grad, rtol=1e-2 if dtype == torch.bfloat16 else 1e-6)


def test_policy_loss_is_minus_ratio_times_advantage_inside_the_clip() -> None:
    # Ratios 0.22 / 0.2 = 1.1 and 0.45 / 0.5 = 0.9; -1.1 * 2 and -0.9 * -1.
    loss = policy_loss(
        logs(0.22, 0.45), logs(0.2, 0.5), torch.tensor([2.0, -1.0], dtype=torch.float64), **CLIP
    )
    assert near(loss, -2.2, 0.9)


def test_policy_loss_is_clipped_only_where_moving_on_would_pay() -> None:
    # Ratios 2, 2, 0.5, 0.5 with clip 0.8 .. 1.3:
    #   advantage  1: min( 2,  1.3) =  1.3     advantage -1: min(-2, -1.3) = -2
    #   advantage  1: min(.5,  0.8) =  0.5     advantage -1: min(-.5, -0.8) = -0.8
    advantages = torch.tensor([1.0, -1.0, 1.0, -1.0], dtype=torch.float64)
    new = logs(0.4, 0.4, 0.1, 0.1).requires_grad_()
    loss = policy_loss(new, logs(0.2, 0.2, 0.2, 0.2), advantages, **CLIP)
    assert near(loss, -1.3, 2.0, -0.5, 0.8)
    # The derivative is -ratio * advantage where it counts, and nothing where it is clipped.
    loss.sum().backward()
    assert near(new.grad, 0.0, 2.0, -0.5, 0.0)


def test_gradient_raises_what_was_good_and_lowers_what_was_bad() -> None:
    logits = torch.zeros(2, 3, requires_grad=True)
    targets = torch.tensor([1, 2])
    old = token_logprobs(logits, targets).detach()
    advantages = torch.tensor([1.0, -1.0])
    loss = policy_loss(token_logprobs(logits, targets), old, advantages, **CLIP)
    token_mean(loss, 2).backward()
    # -advantage / 2 * (1 - 1/3) at the token sampled, advantage / 2 * 1/3 at the others.
    assert near(logits.grad[0], 1 / 6, -1 / 3, 1 / 6)
    assert near(logits.grad[1], -1 / 6, -1 / 6, 1 / 3)


def test_weights_scale_the_loss_of_each_token() -> None:
    loss = policy_loss(
        logs(0.5, 0.5), logs(0.5, 0.5), torch.ones(2), weights_N=torch.tensor([0.5, 2.0]), **CLIP
    )
    assert near(loss, -0.5, -2.0)


def test_a_zero_advantage_is_no_loss_however_far_the_ratio() -> None:
    new = torch.tensor([0.0, -500.0], requires_grad=True)
    loss = policy_loss(new, torch.tensor([-500.0, 0.0]), torch.zeros(2), **CLIP)
    loss.sum().backward()
    assert near(loss, 0.0, 0.0) and near(new.grad, 0.0, 0.0)


def test_importance_weights_are_capped_and_carry_no_gradient() -> None:
    # 0.3 / 0.2 = 1.5 stays, 0.8 / 0.2 = 4 is cut to 2, 0.1 / 0.2 = 0.5 stays.
    trainer = logs(0.3, 0.8, 0.1).requires_grad_()
    weights = truncated_weights(trainer, logs(0.2, 0.2, 0.2), cap=2.0)
    assert near(weights, 1.5, 2.0, 0.5)
    assert not weights.requires_grad


def test_kl_penalty_is_the_third_estimator() -> None:
    # Reference over policy is 2: 2 - log 2 - 1; 1/2: 1/2 + log 2 - 1; 1: nothing.
    kl = kl_penalty(logs(0.2, 0.4, 0.5), logs(0.4, 0.2, 0.5))
    assert near(kl, 1 - math.log(2), math.log(2) - 0.5, 0.0)


def test_kl_penalty_and_its_gradient_on_average_are_those_of_the_divergence() -> None:
    # All three tokens with the probability they are sampled with: the average is exact.
    logits, reference = logs(0.5, 0.3, 0.2).requires_grad_(), logs(0.2, 0.2, 0.6)
    logprobs = logits.log_softmax(0)
    old = logprobs.detach()
    divergence = (logprobs.exp() * (logprobs - reference)).sum()
    estimate = (old.exp() * kl_penalty(logprobs, reference, old)).sum()
    assert near(estimate, divergence.item())
    (wanted,) = torch.autograd.grad(divergence, logits, retain_graph=True)
    (given,) = torch.autograd.grad(estimate, logits)
    assert wanted.abs().max() > 0.1 and torch.allclose(given, wanted)


def test_sft_loss_is_the_negative_logprob() -> None:
    # Of probabilities 1/2 and 1/4, over two tokens: (log 2 + log 4) / 2 = 1.5 log 2.
    assert near(token_mean(sft_loss(logs(0.5, 0.25)), 2), 1.5 * math.log(2))


def test_token_mean_leaves_out_what_is_not_trained() -> None:
    loss = torch.tensor([1.0, math.nan, 3.0])
    is_trained = torch.tensor([True, False, True])
    assert near(token_mean(loss, 8, is_trained), (1 + 3) / 8)


def test_an_update_without_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match="0 trained tokens"):
        token_mean(torch.zeros(0), 0)


@given(st.lists(st.integers(1, 7), min_size=1, max_size=5), st.integers(0, 1000))
def test_micro_batches_give_the_gradient_of_the_whole(sizes: list[int], seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    n = sum(sizes)
    draw = {"generator": random, "dtype": torch.float64}
    features, head = torch.randn(n, 4, **draw), torch.randn(4, 6, **draw)
    targets = torch.randint(6, (n,), generator=random)
    old = token_logprobs(features @ head, targets) + 0.3 * torch.randn(n, **draw)
    advantages = torch.randn(n, **draw)

    def gradient(slices: list[slice]) -> torch.Tensor:
        weights = head.clone().requires_grad_()
        for part in slices:
            logprobs = token_logprobs(features[part] @ weights, targets[part])
            loss = policy_loss(logprobs, old[part], advantages[part], **CLIP)
            loss = loss + 0.1 * kl_penalty(logprobs, old[part], old[part])
            token_mean(loss, n).backward()
        assert weights.grad is not None
        return weights.grad

    ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
    parts = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
    assert torch.allclose(gradient(parts), gradient([slice(0, n)]), atol=1e-12)


def test_policy_metrics_count_clips_and_measure_the_distance_moved() -> None:
    # Ratios 2, 2, 1/2, 1; the first is clipped (above 1.3 and good), the third is not
    # (below 0.8 but good), the fourth has not moved.
    metrics = policy_metrics(
        logs(0.4, 0.4, 0.1, 0.3),
        logs(0.2, 0.2, 0.2, 0.3),
        torch.tensor([1.0, -1.0, 1.0, 1.0]),
        **CLIP,
    )
    assert metrics == pytest.approx(
        {
            "policy/clip_fraction": 1 / 4,
            "policy/ratio_mean": (2 + 2 + 0.5 + 1) / 4,
            "policy/ratio_max": 2.0,
            # -log 2 - log 2 + log 2 + 0
            "policy/kl_k1": -math.log(2) / 4,
            # ratio - 1 - log ratio: twice 1 - log 2, then -1/2 + log 2, then 0
            "policy/kl_k3": (2 * (1 - math.log(2)) - 0.5 + math.log(2)) / 4,
        },
        abs=1e-7,
    )


def test_mismatch_is_the_mean_and_the_largest_gap() -> None:
    metrics = mismatch_metrics(torch.tensor([-1.0, -2.0, -3.0]), torch.tensor([-1.5, -1.75, -3.0]))
    assert metrics == {"mismatch/mean": 0.25, "mismatch/max": 0.5}
