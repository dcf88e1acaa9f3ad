"""Losses and their metrics as pure functions on tensors: no model, no batch, no optimiser.

Each loss is one value per token. `token_mean` alone reduces, by a count its caller gives:
all trained tokens of the update, so that cutting the update into micro-batches changes
neither its value nor its gradient. Functions work on any leading axes, written N here.
Everything is computed in float32 at least, whatever the logits come in.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

# exp(20) is 5e8, past any clip; without the bound, inf times a zero advantage would be nan.
MAX_LOG_RATIO = 20.0


def logprobs_and_entropy(
    logits_N_V: Tensor, targets_N: Tensor, temperature: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Log-probability of each target, and the entropy in nats there, which has no gradient."""
    logprobs_N, entropy_N = _Picked.apply(logits_N_V, targets_N, temperature)  # type: ignore[no-untyped-call]
    return logprobs_N, entropy_N


def policy_loss(
    logprobs_N: Tensor,
    old_logprobs_N: Tensor,
    advantages_N: Tensor,
    *,
    clip_low: float,
    clip_high: float,
    weights_N: Tensor | None = None,
) -> Tensor:
    """PPO's clipped loss per token: the ratio stops paying beyond 1 - low and 1 + high.

    Schulman et al. 2017, equation 7; a `clip_high` above `clip_low` is DAPO's clip-higher.
    """
    ratio_N = _ratio(logprobs_N, old_logprobs_N)
    clipped_N = ratio_N.clamp(1 - clip_low, 1 + clip_high)
    loss_N = -torch.minimum(ratio_N * advantages_N, clipped_N * advantages_N)
    return loss_N if weights_N is None else loss_N * weights_N


def sequence_policy_loss(
    logprobs_N: Tensor,
    old_logprobs_N: Tensor,
    advantages_N: Tensor,
    sequences_N: Tensor,
    *,
    clip_low: float,
    clip_high: float,
    is_mean: bool,
    weights_N: Tensor | None = None,
) -> Tensor:
    """The clipped loss with one ratio for a whole sequence, spread evenly over its tokens.

    The ratio is that of the sequence's probability (as in RLOO), or with `is_mean` the
    geometric mean of its tokens' (GSPO, Zheng et al. 2025, equation 7). Summed over tokens
    and divided by the number of sequences, it is the mean over sequences. A sequence's
    advantage is the mean of its tokens'; all of its tokens must be here.
    """
    count = int(sequences_N.max()) + 1 if len(sequences_N) else 0
    lengths_S = torch.bincount(sequences_N, minlength=count).clamp(min=1)

    def total(values_N: Tensor) -> Tensor:
        return values_N.new_zeros(count).index_add(0, sequences_N, values_N)

    log_ratio_S = total(logprobs_N - old_logprobs_N)
    if is_mean:
        log_ratio_S = log_ratio_S / lengths_S
    ratio_S = log_ratio_S.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()
    clipped_S = ratio_S.clamp(1 - clip_low, 1 + clip_high)
    advantages_S = total(advantages_N) / lengths_S
    loss_S = -torch.minimum(ratio_S * advantages_S, clipped_S * advantages_S)
    if weights_N is not None:
        loss_S = loss_S * (total(weights_N) / lengths_S)
    return (loss_S / lengths_S)[sequences_N]


def value_loss(
    values_N: Tensor, old_values_N: Tensor, returns_N: Tensor, clip: float | None = None
) -> Tensor:
    """Half the squared error, not paid for moving further than `clip` in one update."""
    error_N = (values_N - returns_N).square()
    if clip is not None:
        near_N = old_values_N + (values_N - old_values_N).clamp(-clip, clip)
        error_N = torch.maximum(error_N, (near_N - returns_N).square())
    return 0.5 * error_N


def truncated_weights(trainer_logprobs_N: Tensor, sampler_logprobs_N: Tensor, cap: float) -> Tensor:
    """Weights that undo what the sampler computes otherwise than the trainer, at most `cap`.

    Truncated importance sampling per token; both sides have the same weights of the model,
    and no gradient flows.
    """
    with torch.no_grad():
        return _ratio(trainer_logprobs_N, sampler_logprobs_N).clamp(max=cap)


def kl_penalty(
    logprobs_N: Tensor, reference_logprobs_N: Tensor, old_logprobs_N: Tensor | None = None
) -> Tensor:
    """KL divergence from the reference, one estimate per token, never negative.

    The k3 estimator of Schulman's "Approximating KL Divergence" (2020). To train on it, give
    the log-probabilities the tokens were sampled with: only with that ratio is the gradient
    that of the divergence, on-policy too (DeepSeek-V3.2, 2025).
    """
    difference_N = reference_logprobs_N - logprobs_N
    penalty_N = torch.expm1(difference_N) - difference_N
    if old_logprobs_N is None:
        return penalty_N
    return penalty_N * _ratio(logprobs_N, old_logprobs_N)


def sft_loss(logprobs_N: Tensor) -> Tensor:
    """Cross-entropy of each token."""
    return -logprobs_N


def imitation_loss(logprobs_N: Tensor, recorded_logprobs_N: Tensor, clip: float) -> Tensor:
    """Cross-entropy of tokens until they are `1 + clip` times as likely as when sampled, then 0.

    Oh et al. 2018 imitate what did better than expected. Here the recorded probability says
    when it is enough, so that a few episodes shown again and again are not learned by heart.
    """
    ratio_N = _ratio(logprobs_N.detach(), recorded_logprobs_N)
    return torch.where(ratio_N < 1 + clip, -logprobs_N, torch.zeros_like(logprobs_N))


def token_mean(loss_N: Tensor, num_tokens: float, is_trained_N: Tensor | None = None) -> Tensor:
    """Sum of the trained tokens' losses over the number of trained tokens of the update.

    Without `is_trained_N`, all tokens given are trained ones.
    """
    if num_tokens <= 0:
        raise ValueError(f"an update of {num_tokens:g} trained tokens has no mean: skip it")
    if is_trained_N is not None:
        loss_N = torch.where(is_trained_N, loss_N, 0.0)
    return loss_N.sum() / num_tokens


@torch.no_grad()
def policy_metrics(
    logprobs_N: Tensor,
    old_logprobs_N: Tensor,
    advantages_N: Tensor,
    *,
    clip_low: float,
    clip_high: float,
) -> dict[str, float]:
    """How far the policy has moved from the one that sampled, over trained tokens only.

    Both KL estimates are of old from new; k1 may be negative, k3 is not.
    """
    ratio_N = _ratio(logprobs_N, old_logprobs_N)
    is_clipped_N = ((ratio_N < 1 - clip_low) & (advantages_N < 0)) | (
        (ratio_N > 1 + clip_high) & (advantages_N > 0)
    )
    return _numbers(
        {
            "policy/clip_fraction": is_clipped_N.float().mean(),
            "policy/ratio_mean": ratio_N.mean(),
            "policy/ratio_max": ratio_N.max(),
            "policy/kl_k1": (old_logprobs_N - logprobs_N).mean(),
            "policy/kl_k3": kl_penalty(old_logprobs_N, logprobs_N).mean(),
        }
    )


@torch.no_grad()
def mismatch_metrics(trainer_logprobs_N: Tensor, sampler_logprobs_N: Tensor) -> dict[str, float]:
    """How far trainer and sampler are apart on the same tokens under the same weights."""
    gap_N = (trainer_logprobs_N - sampler_logprobs_N).abs()
    return _numbers({"mismatch/mean": gap_N.mean(), "mismatch/max": gap_N.max()})


class _Picked(torch.autograd.Function):
    """Keeps one tensor of the logits' size and precision: the logits, or what became of them.

    Autograd by itself keeps the log-softmax in single precision, and in the backward pass fills
    as much again with zeros for the tokens that were not picked.
    """

    @staticmethod
    def forward(
        ctx: Any, logits_N_V: Tensor, targets_N: Tensor, temperature: float
    ) -> tuple[Tensor, Tensor]:
        logprobs_N_V = _log_softmax(logits_N_V, temperature)
        picked_N = logprobs_N_V.gather(-1, targets_N.unsqueeze(-1)).squeeze(-1)
        probs_N_V = logprobs_N_V.exp_()
        # entr takes 0 log 0 as 0, so tokens ruled out by a logit of -inf do no harm.
        entropy_N = torch.special.entr(probs_N_V).sum(-1)
        ctx.is_half = probs_N_V.dtype != logits_N_V.dtype
        ctx.save_for_backward(logits_N_V if ctx.is_half else probs_N_V, targets_N)
        ctx.temperature = temperature
        ctx.mark_non_differentiable(entropy_N)
        return picked_N, entropy_N

    @staticmethod
    def backward(ctx: Any, grad_N: Tensor, _: Tensor) -> tuple[Tensor, None, None]:
        kept_N_V, targets_N = ctx.saved_tensors
        scaled_N_1 = (grad_N / ctx.temperature).unsqueeze(-1)
        if ctx.is_half:
            grad_N_V = _log_softmax(kept_N_V, ctx.temperature).exp_().mul_(-scaled_N_1)
        else:
            grad_N_V = kept_N_V * -scaled_N_1
        grad_N_V.scatter_add_(-1, targets_N.unsqueeze(-1), scaled_N_1)
        return grad_N_V.to(kept_N_V.dtype), None, None


def _log_softmax(logits_N_V: Tensor, temperature: float) -> Tensor:
    # Half precision would cost three digits here; float64 is left as it is.
    logits_N_V = logits_N_V.to(torch.promote_types(logits_N_V.dtype, torch.float32))
    if temperature != 1.0:
        logits_N_V = logits_N_V / temperature
    return logits_N_V.log_softmax(-1)


def _ratio(logprobs_N: Tensor, old_logprobs_N: Tensor) -> Tensor:
    return (logprobs_N - old_logprobs_N).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()


def _numbers(metrics: dict[str, Tensor]) -> dict[str, float]:
    # One transfer for all of them: each .item() would wait for the device.
    values = torch.stack([value.float() for value in metrics.values()]).tolist()
    return dict(zip(metrics, values, strict=True))
