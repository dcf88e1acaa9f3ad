"""What RL algorithms have in common: from groups to credit for every turn, and a loss per token.

An algorithm answers three questions, each in one method: does a group teach anything
(`judge`), what is each turn worth (`credit`), and what is the loss (`objective`, divided by
`normaliser`). The plain answers here are GRPO's; a subclass gives its own where it differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from practicum.config.algorithms import AlgorithmConfig
from practicum.core.episode import Episode, Group
from practicum.train.advantages import (
    Floats,
    GroupAdvantages,
    GroupKind,
    group_advantages,
    whitened,
)
from practicum.train.batch import Ints, Sample
from practicum.train.losses import kl_penalty, policy_loss, truncated_weights
from practicum.train.trainer import Scored

Config = TypeVar("Config", bound=AlgorithmConfig)


@dataclass(frozen=True)
class JudgedGroup:
    """A group, and whether there is something to learn from it."""

    group: Group
    rewards: tuple[float | None, ...]
    """As the algorithm sees them; None for an episode that has no say."""
    kind: GroupKind
    teaches: bool
    part: str = ""
    """Which environment of the training it is of, by name."""


@dataclass(frozen=True)
class Credited:
    """An episode and what each of its turns is worth."""

    episode: Episode
    advantages: tuple[float, ...]


@dataclass
class Tokens:
    """The sampled tokens of an episode and what was known of them before the update."""

    turns_T: Ints
    rewards_T: Floats
    advantages_T: Floats
    known: dict[str, Floats]
    """`start` and, where asked for, `reference` and `values`."""
    found: dict[str, Floats] = field(default_factory=dict)
    """What the objective will find under `fixed_N`, beside the advantages."""


class Algorithm(Generic[Config]):
    """GRPO's skeleton. Groups of equal rewards teach nothing, an episode's turns share alike."""

    needs_values = False
    """Learns a value head."""
    needs_start = False
    """Wants to `finish` its advantages once the model was asked about the tokens."""

    def __init__(self, config: Config) -> None:
        self.config = config

    def judge(self, group: Group, min_judged: int) -> JudgedGroup:
        """Look at the rewards; too few judged episodes make the group `too-few`."""
        rewards = [self.reward(episode) for episode in group.episodes]
        if sum(reward is not None for reward in rewards) < min_judged:
            rewards = [None] * len(rewards)
        kind = group_advantages(rewards).kind
        return JudgedGroup(group, tuple(rewards), kind, self.teaches(kind))

    def reward(self, episode: Episode) -> float | None:
        """What an episode counts for; None leaves it out."""
        return None if episode.reward is None else episode.reward.value

    def teaches(self, kind: GroupKind) -> bool:
        """Whether a group of this kind changes the weights."""
        return kind == "informative"

    def credit(self, groups: Sequence[JudgedGroup]) -> list[Credited]:
        """Worth of the turns of all episodes that count."""
        return [one for group in groups for one in spread(group, self.within(group.rewards))]

    def within(self, rewards_G: Sequence[float | None]) -> GroupAdvantages:
        """Advantages of a group's episodes."""
        return group_advantages(rewards_G)

    def finish(self, episodes: Sequence[Tokens]) -> None:
        """Work the model's own numbers into the advantages, in place."""

    def normaliser(self, samples: Sequence[Sample]) -> float:
        """What the sum of all tokens' losses is divided by: their number."""
        return float(sum(sample.num_trained for sample in samples))

    def objective(self, scored: Scored) -> tuple[Tensor, dict[str, Tensor]]:
        """Loss per token and what to report about it."""
        old_N, weights_N = self.old_policy(scored)
        config: Any = self.config
        loss_N = policy_loss(
            scored.logprobs_N,
            old_N,
            scored.advantages_N,
            clip_low=config.clip_low,
            clip_high=config.clip_high,
            weights_N=weights_N,
        )
        return self.with_kl(loss_N, scored, old_N, self.report(scored, old_N))

    def old_policy(self, scored: Scored) -> tuple[Tensor, Tensor | None]:
        """What ratios are taken against, and weights for what the sampler computed otherwise.

        The clip is around the weights this update begins with; how much likelier those make a
        token than the weights that sampled it, perhaps some updates ago, is a weight on its
        loss: decoupled clipping, as AReaL has it (Fu et al. 2025).
        """
        start_N = scored.before()
        if self.config.mismatch_cap is None:
            return scored.recorded_N, None
        return start_N, truncated_weights(start_N, scored.recorded_N, self.config.mismatch_cap)

    def report(self, scored: Scored, old_N: Tensor) -> dict[str, Tensor]:
        """How far the policy has moved, token by token."""
        config: Any = self.config
        with torch.no_grad():
            ratio_N = (scored.logprobs_N - old_N).exp()
            gap_N = (scored.before() - scored.recorded_N).abs()
            is_clipped_N = torch.where(
                scored.advantages_N > 0,
                ratio_N > 1 + config.clip_high,
                ratio_N < 1 - config.clip_low,
            )
            return {
                "policy/clip_fraction": is_clipped_N.float(),
                "policy/ratio_max": ratio_N,
                "policy/kl_k3": kl_penalty(old_N, scored.logprobs_N),
                "mismatch/mean": gap_N,
                "mismatch/max": gap_N,
            }

    def with_kl(
        self, loss_N: Tensor, scored: Scored, old_N: Tensor, reported: dict[str, Tensor]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Add the penalty for leaving the model training began with, if there is one."""
        if self.config.kl == 0:
            return loss_N, reported
        kl_N = kl_penalty(scored.logprobs_N, scored.fixed_N["reference"], old_N)
        return loss_N + self.config.kl * kl_N, {**reported, "loss/kl": kl_N}


def spread(group: JudgedGroup, advantages: GroupAdvantages) -> list[Credited]:
    """Give all turns of an episode its advantage; leave out episodes that do not count."""
    return [
        Credited(episode, (float(value),) * len(episode.turns))
        for episode, value, counts in zip(
            group.group.episodes, advantages.values, advantages.is_counted, strict=True
        )
        if counts
    ]


def whiten(episodes: Sequence[Tokens]) -> None:
    """Bring the advantages of all tokens to mean 0 and deviation 1."""
    if episodes:
        ends = np.cumsum([len(tokens.advantages_T) for tokens in episodes])[:-1]
        all_N = whitened(np.concatenate([tokens.advantages_T for tokens in episodes]))
        for tokens, part in zip(episodes, np.split(all_N, ends), strict=True):
            tokens.advantages_T = part
