"""RLOO (Ahmadian et al. 2024): each episode against the mean of the others, as one action.

The ratio is that of the whole episode's probability, so at the first step of an update the
gradient is plain REINFORCE: the advantage times the gradient of the sum of log-probabilities.
"""

from __future__ import annotations

from collections.abc import Sequence

from practicum.config.algorithms import RlooConfig
from practicum.train.advantages import GroupAdvantages, group_advantages
from practicum.train.algorithms.whole_episode import WholeEpisode


class Rloo(WholeEpisode[RlooConfig]):
    """Leave-one-out advantages, one clipped ratio per episode, a mean over episodes."""

    def within(self, rewards_G: Sequence[float | None]) -> GroupAdvantages:
        """Each against the others."""
        return group_advantages(rewards_G, baseline="others")
