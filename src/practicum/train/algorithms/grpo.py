"""GRPO: rewards centred within their group (Shao et al. 2024).

Without the division by the standard deviation, which inflates groups that barely differ (Liu
et al. 2025), unless asked for. The loss is a mean over all tokens of the update.
"""

from __future__ import annotations

from collections.abc import Sequence

from practicum.config.algorithms import GrpoConfig
from practicum.train.advantages import GroupAdvantages, group_advantages
from practicum.train.algorithms.base import Algorithm


class Grpo(Algorithm[GrpoConfig]):
    """Group-centred advantages, PPO's clip, a mean over tokens."""

    def within(self, rewards_G: Sequence[float | None]) -> GroupAdvantages:
        """Centred, perhaps scaled, and with less weight on what is below zero if asked."""
        return group_advantages(
            rewards_G, scale=self.config.scale, negative_weight=self.config.negative_weight
        )
