"""GRPO: what an update does with groups of episodes.

Advantages are rewards centred within their group (Shao et al. 2024; without the division
by the standard deviation, which inflates groups that barely differ: Liu et al. 2025). The
loss is a mean over tokens of PPO's clipped ratio to the policy at the start of the update.
That policy is known twice, by the sampler's recorded log-probabilities and by the trainer's
own; what one computes otherwise than the other is a metric, and is corrected by truncated
importance weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from practicum.config.train import GrpoConfig
from practicum.core.canonical import stable_seed
from practicum.core.episode import Group
from practicum.train.advantages import GroupAdvantages, group_advantages
from practicum.train.batch import Sample, episode_samples, split_samples
from practicum.train.losses import kl_penalty, policy_loss, truncated_weights
from practicum.train.trainer import LocalTrainer, Metrics, Scored


@dataclass(frozen=True)
class JudgedGroup:
    """A group and what its rewards say about each episode."""

    group: Group
    advantages: GroupAdvantages

    @classmethod
    def of(cls, group: Group, config: GrpoConfig, min_judged: int) -> JudgedGroup:
        """Centre the rewards; too few judged episodes make the group `too-few`."""
        rewards = [e.reward.value if e.reward is not None else None for e in group.episodes]
        if len(group.judged) < min_judged:
            rewards = [None] * len(rewards)
        advantages = group_advantages(
            rewards, scale=config.scale, negative_weight=config.negative_weight
        )
        return cls(group, advantages)

    def samples(self) -> list[Sample]:
        """Sequences of the episodes that count."""
        return [
            sample
            for episode, value, counts in zip(
                self.group.episodes,
                self.advantages.values,
                self.advantages.is_counted,
                strict=True,
            )
            if counts
            for sample in episode_samples(episode, float(value))
        ]


def update_policy(
    trainer: LocalTrainer,
    groups: Sequence[JudgedGroup],
    config: GrpoConfig,
    *,
    update: int,
    seed: int,
    reference: Any = None,
) -> Metrics:
    """Learn from informative groups; returns the update's metrics."""
    samples = [sample for group in groups for sample in group.samples()]
    parts = split_samples(samples, config.minibatches, stable_seed(seed, "minibatches", update))
    packs = [trainer.pack(part) for part in parts]
    fixed: list[list[dict[str, Tensor]]] = [[{} for _ in part] for part in packs]
    if len(parts) > 1:
        # The first step changes the weights: what the trainer says before it must be kept.
        _note(fixed, "start", [trainer.logprobs(part) for part in packs])
    if reference is not None:
        _note(fixed, "reference", [trainer.logprobs(part, reference) for part in packs])

    def objective(scored: Scored) -> tuple[Tensor, dict[str, Tensor]]:
        return grpo_objective(scored, config)

    rows = [
        trainer.step(part, objective, update=update, fixed=known)
        for part, known in zip(packs, fixed, strict=True)
    ]
    return _summary(rows) | {
        "tokens/trained": float(sum(sample.num_trained for sample in samples)),
        "tokens/computed": float(sum(pack.num_computed for part in packs for pack in part)),
        "tokens/shared": float(sum(pack.num_shared for part in packs for pack in part)),
    }


def grpo_objective(scored: Scored, config: GrpoConfig) -> tuple[Tensor, dict[str, Tensor]]:
    """Loss per token and what to report about it."""
    start_N = scored.fixed_N.get("start", scored.logprobs_N.detach())
    if config.mismatch_cap is None:
        old_N, weights_N = scored.recorded_N, None
    else:
        old_N = start_N
        weights_N = truncated_weights(start_N, scored.recorded_N, config.mismatch_cap)
    loss_N = policy_loss(
        scored.logprobs_N,
        old_N,
        scored.advantages_N,
        clip_low=config.clip_low,
        clip_high=config.clip_high,
        weights_N=weights_N,
    )
    with torch.no_grad():
        ratio_N = (scored.logprobs_N - old_N).exp()
        gap_N = (start_N - scored.recorded_N).abs()
        is_clipped_N = torch.where(
            scored.advantages_N > 0, ratio_N > 1 + config.clip_high, ratio_N < 1 - config.clip_low
        )
        reported = {
            "policy/clip_fraction": is_clipped_N.float(),
            "policy/ratio_max": ratio_N,
            "policy/kl_k3": kl_penalty(old_N, scored.logprobs_N),
            "mismatch/mean": gap_N,
            "mismatch/max": gap_N,
        }
    if config.kl > 0:
        kl_N = kl_penalty(scored.logprobs_N, scored.fixed_N["reference"], old_N)
        loss_N = loss_N + config.kl * kl_N
        reported["loss/kl"] = kl_N
    return loss_N, reported


def _note(
    fixed: list[list[dict[str, Tensor]]], name: str, values: Sequence[Sequence[Tensor]]
) -> None:
    for part, tensors in zip(fixed, values, strict=True):
        for known, tensor in zip(part, tensors, strict=True):
            known[name] = tensor


def _summary(rows: Sequence[Metrics]) -> Metrics:
    """One row for the steps of an update: means, and the largest of what is a maximum."""
    names = {"loss": "loss/policy", "entropy": "policy/entropy", "grad_norm": "grad/norm"}
    summary: Metrics = {}
    for name in rows[0]:
        values = [row[name] for row in rows]
        is_max = name.endswith("max")
        summary[names.get(name, name)] = max(values) if is_max else sum(values) / len(values)
    return summary
