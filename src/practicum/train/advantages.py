"""How much better an episode was than the others of its group.

Numbers only: which episodes form a group, and what becomes of a group that teaches nothing,
is the loop's business.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Scale = Literal["none", "std"]
GroupKind = Literal["informative", "all-success", "all-failure", "equal", "too-few"]

# Rewards closer than this are the same reward: what is left is rounding.
SAME_REWARD = 1e-8
# Keeps a group whose rewards barely differ from dividing by almost nothing; TRL's value.
STD_FLOOR = 1e-4


@dataclass(frozen=True, slots=True)
class GroupAdvantages:
    """One advantage per member of a group, and whether the group teaches anything."""

    values: NDArray[np.float64]
    """Zero for members that are not counted, and in a group that is not informative."""
    is_counted: NDArray[np.bool_]
    """False for a broken episode, and for a worse one at `negative_weight=0`: its tokens are
    masked, in the loss and in its normaliser."""
    kind: GroupKind
    """Why the group teaches nothing, if it does not."""

    @property
    def is_informative(self) -> bool:
        """At least two members were judged, and not all alike."""
        return self.kind == "informative"


def group_advantages(
    rewards_G: Sequence[float | None], *, scale: Scale = "none", negative_weight: float = 1.0
) -> GroupAdvantages:
    """Centre rewards within their group; `None`, a broken episode, has no say in it.

    `scale="std"` divides by the sample standard deviation (over n - 1, as TRL does).
    `negative_weight` scales what is below zero after that: the tokens of a failed episode are
    mostly right ones, and a policy that is nearly certain of them unlearns them first. At 0
    such members are not counted.
    Rewards of 1 or more throughout are all-success, of 0 or less throughout all-failure.
    """
    for member, reward in enumerate(rewards_G):
        if reward is not None and not math.isfinite(reward):
            raise ValueError(
                f"reward {reward} of group member {member} is not a finite number: "
                "a judge that cannot judge raises RewardError"
            )
    judged = [reward for reward in rewards_G if reward is not None]
    is_counted_G = np.array([reward is not None for reward in rewards_G], dtype=np.bool_)
    values_G = np.zeros(len(rewards_G), dtype=np.float64)
    kind = _kind(judged)
    if kind == "informative":
        # fsum rounds once, so the order of a group's members cannot change a bit.
        mean = math.fsum(judged) / len(judged)
        centred = [reward - mean for reward in judged]
        if scale == "std":
            variance = math.fsum(value * value for value in centred) / (len(judged) - 1)
            centred = [value / (math.sqrt(variance) + STD_FLOOR) for value in centred]
        values_G[is_counted_G] = [v if v > 0 else v * negative_weight for v in centred]
        if negative_weight == 0:
            is_counted_G[is_counted_G] = [value >= 0 for value in centred]
    return GroupAdvantages(values_G, is_counted_G, kind)


def _kind(judged: Sequence[float]) -> GroupKind:
    if len(judged) < 2:
        return "too-few"
    low, high = min(judged), max(judged)
    if high - low > SAME_REWARD:
        return "informative"
    if low >= 1 - SAME_REWARD:
        return "all-success"
    if high <= SAME_REWARD:
        return "all-failure"
    return "equal"
