"""REINFORCE++ (Hu et al. 2025): no critic, and advantages standardised over the whole update.

A token's advantage is what its turn and the later ones earned, less the weighted divergence
from the starting model over the rest of the episode, and then all tokens of the update are
brought to mean 0 and deviation 1. `baseline: group` takes the group's mean off first. The
divergence is in the reward, so it is not in the loss again.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from practicum.config.algorithms import ReinforcePpConfig
from practicum.train.advantages import GroupKind, discounted_returns, group_advantages
from practicum.train.algorithms.base import Algorithm, Credited, JudgedGroup, Tokens, whiten
from practicum.train.batch import turn_rewards
from practicum.train.trainer import Scored


class ReinforcePp(Algorithm[ReinforcePpConfig]):
    """Returns standardised over the tokens of the update, PPO's clip, a mean over tokens."""

    needs_start = True

    def teaches(self, kind: GroupKind) -> bool:
        """Equal rewards teach too: they are compared with those of other groups."""
        return kind == "informative" if self.config.baseline == "group" else kind != "too-few"

    def credit(self, groups: Sequence[JudgedGroup]) -> list[Credited]:
        """What each turn and those after it earned, perhaps less the mean of the group."""
        credited = []
        for group in groups:
            centred = group_advantages(group.rewards)
            for episode, reward, value in zip(
                group.group.episodes, group.rewards, centred.values, strict=True
            ):
                if reward is None:
                    continue
                returns = discounted_returns(turn_rewards(episode), 1.0)
                if self.config.baseline == "group":
                    returns -= reward - value
                credited.append(Credited(episode, tuple(map(float, returns))))
        return credited

    def finish(self, episodes: Sequence[Tokens]) -> None:
        """Take the divergence off, then standardise."""
        for tokens in episodes:
            if self.config.kl > 0:
                gap_T = tokens.known["start"] - tokens.known["reference"]
                tokens.advantages_T -= self.config.kl * gap_T[::-1].cumsum()[::-1]
        whiten(episodes)

    def with_kl(
        self,
        loss_N: Tensor,
        scored: Scored,
        old_N: Tensor,
        reported: dict[str, Tensor],
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The reward has it."""
        return loss_N, reported
