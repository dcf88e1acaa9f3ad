"""GSPO (Zheng et al. 2025): one ratio for a whole episode, the geometric mean of its tokens'.

What is clipped, and what corrects the sampler, then is an episode and not a token; its ratio
hardly moves, so the clip is a thousand times narrower than PPO's.
"""

from __future__ import annotations

from collections.abc import Sequence

from practicum.config.algorithms import GspoConfig
from practicum.train.advantages import GroupAdvantages, group_advantages
from practicum.train.algorithms.whole_episode import WholeEpisode


class Gspo(WholeEpisode[GspoConfig]):
    """Group-centred advantages, one clipped ratio per episode, a mean over episodes."""

    is_mean = True

    def within(self, rewards_G: Sequence[float | None]) -> GroupAdvantages:
        """Centred, and scaled as in the paper unless told otherwise."""
        return group_advantages(rewards_G, scale=self.config.scale)
