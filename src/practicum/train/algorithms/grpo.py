"""GRPO: rewards centred within their group (Shao et al. 2024).

Without the division by the standard deviation, which inflates groups that barely differ (Liu
et al. 2025), unless asked for. The loss is a mean over all tokens of the update.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from practicum.config.algorithms import GrpoConfig
from practicum.train.advantages import GroupAdvantages, group_advantages
from practicum.train.algorithms.base import Algorithm, Credited, JudgedGroup


class Grpo(Algorithm[GrpoConfig]):
    """Group-centred advantages, PPO's clip, a mean over tokens."""

    def within(self, rewards_G: Sequence[float | None]) -> GroupAdvantages:
        """Centred, perhaps scaled, and with less weight on what is below zero if asked."""
        return group_advantages(
            rewards_G, scale=self.config.scale, negative_weight=self.config.negative_weight
        )

    def credit(self, groups: Sequence[JudgedGroup]) -> list[Credited]:
        """Worth of all turns, with less praise for refused ones if asked."""
        return [self._praise(credited) for credited in super().credit(groups)]

    def _praise(self, credited: Credited) -> Credited:
        weight = self.config.refused_weight
        advantages = (
            value * weight if turn.is_invalid and value > 0 else value
            for turn, value in zip(credited.episode.turns, credited.advantages, strict=True)
        )
        return replace(credited, advantages=tuple(advantages))
