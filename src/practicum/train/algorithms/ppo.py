"""PPO (Schulman et al. 2017) with a value head and generalised advantage estimation.

The head sits on the policy's own hidden states and says, before each token, what the episode
will still earn. A step is a turn or a token: with `level: turn` the value before a turn's first
token stands for the turn, all of its tokens share its advantage, and credit passes over turns;
with `level: token` it passes over every sampled token, and rewards stand at the turn's last.
No group is needed, and groups of equal rewards teach too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from practicum.config.algorithms import PpoConfig
from practicum.train.advantages import GroupKind, generalised_advantages
from practicum.train.algorithms.base import Algorithm, Credited, JudgedGroup, Tokens, whiten
from practicum.train.losses import value_loss
from practicum.train.trainer import Scored


class Ppo(Algorithm[PpoConfig]):
    """Advantages from a learnt value, PPO's clip, a mean over tokens."""

    needs_start = True
    needs_values = True

    def teaches(self, kind: GroupKind) -> bool:
        """What is expected is learnt, not taken from the group."""
        return kind != "too-few"

    def credit(self, groups: Sequence[JudgedGroup]) -> list[Credited]:
        """Every judged episode; advantages come with the values, in `finish`."""
        return [
            Credited(episode, (0.0,) * len(episode.turns))
            for group in groups
            for episode, reward in zip(group.group.episodes, group.rewards, strict=True)
            if reward is not None
        ]

    def finish(self, episodes: Sequence[Tokens]) -> None:
        """Estimate advantages and returns of every episode from the values before the update."""
        num_tokens = num_steps = 0
        for tokens in episodes:
            starts = self._steps(tokens.turns_T)
            step_T = np.cumsum(starts) - 1
            advantages, returns = generalised_advantages(
                tokens.known["values"][starts].tolist(),
                np.bincount(step_T, tokens.rewards_T).tolist(),
                gamma=self.config.gamma,
                gae_lambda=self.config.gae_lambda,
            )
            tokens.advantages_T = advantages[step_T]
            tokens.found |= {"returns": returns[step_T], "step_weight": starts.astype(np.float64)}
            num_tokens += len(starts)
            num_steps += int(starts.sum())
        for tokens in episodes:
            # The objective's sum is divided by tokens; the value's loss is a mean over steps.
            tokens.found["step_weight"] *= num_tokens / num_steps
        if self.config.whiten:
            whiten(episodes)

    def _steps(self, turns_T: np.ndarray) -> np.ndarray:
        """Where steps begin."""
        if self.config.level == "token":
            return np.ones(len(turns_T), np.bool_)
        return np.concatenate(([True], turns_T[1:] != turns_T[:-1]))

    def objective(self, scored: Scored) -> tuple[Tensor, dict[str, Tensor]]:
        """The policy's loss and, where a step begins, the value's."""
        loss_N, reported = super().objective(scored)
        assert scored.values_N is not None
        fixed = scored.fixed_N
        value_N = value_loss(
            scored.values_N, fixed["values"], fixed["returns"], self.config.value_clip
        )
        value_N = value_N * fixed["step_weight"]
        with torch.no_grad():
            error_N = (fixed["values"] - fixed["returns"]).abs()
        reported |= {"loss/value": value_N, "value/error": error_N}
        return loss_N + self.config.value_weight * value_N, reported
