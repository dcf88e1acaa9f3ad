"""Dr. GRPO (Liu et al. 2025): neither an episode's length nor a group's spread changes its weight.

Advantages are centred and not scaled. The losses of an episode's tokens are summed and divided
by a constant: with a mean over its own tokens, long wrong answers would be punished less.
"""

from __future__ import annotations

from collections.abc import Sequence

from practicum.config.algorithms import DrGrpoConfig
from practicum.train.algorithms.base import Algorithm
from practicum.train.batch import Sample


class DrGrpo(Algorithm[DrGrpoConfig]):
    """Group-centred advantages, PPO's clip, a sum over tokens divided by a constant."""

    def normaliser(self, samples: Sequence[Sample]) -> float:
        """The constant for every episode."""
        return float(len({sample.episode for sample in samples}) * self.config.episode_tokens)
