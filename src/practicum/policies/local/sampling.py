"""Draws tokens from logits, each row with its own temperature and its own random number."""

from __future__ import annotations

import torch
from torch import Tensor


def choose(
    logits_B_V: Tensor, temperature_B: Tensor, uniform_B: Tensor, top_p_B: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Sampled ids and their log-probabilities under the distribution they were drawn from.

    One uniform number a row decides (inverse of the cumulative distribution), so a token
    depends on its row alone and not on who shares the batch. Temperature 0 takes the most
    likely token and reports its log-probability at temperature 1.
    """
    is_drawn_B = temperature_B > 0
    divisor_B = torch.where(is_drawn_B, temperature_B, 1.0)
    scores_B_V = logits_B_V.float() / divisor_B[:, None]
    if top_p_B is not None:
        scores_B_V = _keep_top(torch.log_softmax(scores_B_V, -1), top_p_B)
    # One exponential of every logit serves the draw and the log-probability.
    highest_B_1 = scores_B_V.amax(-1, keepdim=True)
    mass_B_V = (scores_B_V - highest_B_1).exp_()
    cumulative_B_V = mass_B_V.cumsum(-1)
    target_B_1 = uniform_B[:, None] * cumulative_B_V[:, -1:]
    # `right`: the first token whose cumulative mass exceeds the target, hence never one of mass 0.
    drawn_B = torch.searchsorted(cumulative_B_V, target_B_1, right=True)[:, 0]
    last = logits_B_V.shape[-1] - 1
    ids_B = drawn_B.clamp(max=last)
    # A GPU must not be waited for, so it looks for the most likely token in any case.
    if logits_B_V.is_cuda or not is_drawn_B.all():
        ids_B = torch.where(is_drawn_B, ids_B, scores_B_V.argmax(-1))
    offset_B_1 = highest_B_1 + mass_B_V.sum(-1, keepdim=True).log()
    return ids_B, (scores_B_V.gather(-1, ids_B[:, None]) - offset_B_1)[:, 0]


def _keep_top(logprobs_B_V: Tensor, top_p_B: Tensor) -> Tensor:
    """Keep the fewest most likely tokens that hold `top_p` of the mass, renormalised."""
    sorted_B_V, order_B_V = logprobs_B_V.sort(-1, descending=True)
    mass_before_B_V = sorted_B_V.exp().cumsum(-1) - sorted_B_V.exp()
    is_beyond_B_V = mass_before_B_V >= top_p_B[:, None]
    dropped_B_V = torch.zeros_like(is_beyond_B_V).scatter(-1, order_B_V, is_beyond_B_V)
    return torch.log_softmax(logprobs_B_V.masked_fill(dropped_B_V, float("-inf")), -1)
