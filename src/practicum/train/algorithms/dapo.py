"""DAPO (Yu et al. 2025): four changes to GRPO, each a setting or the default here.

Clip-higher (`clip_high`), a mean over tokens, groups without variance replaced (the loop does
that for every algorithm that needs variance), and overlong episodes punished softly or left
out. Advantages are divided by the group's standard deviation, as in the paper.
"""

from __future__ import annotations

from collections.abc import Sequence

from practicum.config.algorithms import DapoConfig
from practicum.core.episode import Episode, StopReason
from practicum.train.advantages import GroupAdvantages, group_advantages, overlong_penalty
from practicum.train.algorithms.base import Algorithm

CUT_SHORT = frozenset({StopReason.TURN_LIMIT, StopReason.CONTEXT_LIMIT})


class Dapo(Algorithm[DapoConfig]):
    """Group-centred, scaled advantages, clip-higher, a mean over tokens."""

    def reward(self, episode: Episode) -> float | None:
        """The reward, less what an overlong episode is punished with."""
        value = super().reward(episode)
        if value is None or (self.config.mask_cut and episode.stop in CUT_SHORT):
            return None
        limits = self.config.overlong
        if limits is None:
            return value
        num_tokens = sum(len(turn.completion.token_ids or ()) for turn in episode.turns)
        return value + overlong_penalty(
            num_tokens,
            max_tokens=limits.max_tokens,
            buffer=limits.buffer,
            penalty=limits.penalty,
        )

    def within(self, rewards_G: Sequence[float | None]) -> GroupAdvantages:
        """Centred and scaled."""
        return group_advantages(rewards_G, scale=self.config.scale)
