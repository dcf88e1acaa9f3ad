"""Algorithms for which an episode is one action: one ratio, one loss, a mean over episodes."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from practicum.train.algorithms.base import Algorithm, Config
from practicum.train.batch import Sample
from practicum.train.losses import sequence_policy_loss
from practicum.train.trainer import Scored


class WholeEpisode(Algorithm[Config]):
    """The clipped loss of whole sequences."""

    is_mean = False
    """The ratio is the geometric mean of the tokens', not their product."""

    def normaliser(self, samples: Sequence[Sample]) -> float:
        """The number of sequences: of episodes, as long as none had to be cut."""
        return float(len(samples))

    def objective(self, scored: Scored) -> tuple[Tensor, dict[str, Tensor]]:
        """Loss of each sequence, spread over its tokens."""
        old_N, weights_N = self.old_policy(scored)
        loss_N = sequence_policy_loss(
            scored.logprobs_N,
            old_N,
            scored.advantages_N,
            scored.sequences_N,
            clip_low=self.config.clip_low,
            clip_high=self.config.clip_high,
            is_mean=self.is_mean,
            weights_N=weights_N,
        )
        return self.with_kl(loss_N, scored, old_N, self.report(scored, old_N))
