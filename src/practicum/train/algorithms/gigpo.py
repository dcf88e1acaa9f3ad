"""GiGPO (Feng et al. 2025): credit for single turns without a critic.

Episodes of a group often come through the same state. Turns taken there are a group of their
own: each is worth its discounted return less the mean of theirs, beside what its whole
episode is worth. States are hashes of the environment's own keys or, where it has none, of
what it showed last.
"""

from __future__ import annotations

from collections.abc import Sequence

from practicum.config.algorithms import GigpoConfig
from practicum.train.advantages import (
    GroupAdvantages,
    discounted_returns,
    group_advantages,
    state_advantages,
)
from practicum.train.algorithms.base import Algorithm, Credited, JudgedGroup
from practicum.train.batch import turn_rewards


class Gigpo(Algorithm[GigpoConfig]):
    """Group-centred advantages of episodes and of turns, PPO's clip, a mean over tokens."""

    def within(self, rewards_G: Sequence[float | None]) -> GroupAdvantages:
        """Centred, perhaps scaled."""
        return group_advantages(rewards_G, scale=self.config.scale)

    def credit(self, groups: Sequence[JudgedGroup]) -> list[Credited]:
        """An episode's worth, and for each turn its worth among those taken in its state."""
        return [one for group in groups for one in self._credit(group)]

    def _credit(self, group: JudgedGroup) -> list[Credited]:
        whole = self.within(group.rewards)
        episodes = [
            e for e, counts in zip(group.group.episodes, whole.is_counted, strict=True) if counts
        ]
        values = whole.values[whole.is_counted]
        steps = state_advantages(
            [[turn.state for turn in e.turns] for e in episodes],
            [discounted_returns(turn_rewards(e), self.config.gamma).tolist() for e in episodes],
            scale=self.config.scale,
        )
        weight = self.config.step_weight
        return [
            Credited(episode, tuple(float(value + weight * step) for step in steps_T))
            for episode, value, steps_T in zip(episodes, values, steps, strict=True)
        ]
