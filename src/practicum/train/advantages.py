"""How much better an episode, a turn or a token was than could be expected.

Numbers only: which episodes form a group, and what becomes of a group that teaches nothing,
is the loop's business.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Scale = Literal["none", "std"]
Baseline = Literal["mean", "others"]
Floats = NDArray[np.float64]
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
    rewards_G: Sequence[float | None],
    *,
    baseline: Baseline = "mean",
    scale: Scale = "none",
    negative_weight: float = 1.0,
) -> GroupAdvantages:
    """Centre rewards within their group; `None`, a broken episode, has no say in it.

    `baseline="others"` compares each with the mean of the other members (Ahmadian et al. 2024).
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
        if baseline == "others":
            centred = [value * len(judged) / (len(judged) - 1) for value in centred]
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


def discounted_returns(rewards_T: Sequence[float], gamma: float) -> Floats:
    """What each turn and those after it earned, later ones discounted."""
    returns_T = np.zeros(len(rewards_T))
    ahead = 0.0
    for at in reversed(range(len(rewards_T))):
        ahead = rewards_T[at] + gamma * ahead
        returns_T[at] = ahead
    return returns_T


def state_advantages(
    states_E_T: Sequence[Sequence[Hashable]],
    returns_E_T: Sequence[Sequence[float]],
    *,
    scale: Scale = "none",
) -> list[Floats]:
    """Returns centred among the turns that were taken in the same state (Feng et al. 2025).

    A state that was met once has nothing to be compared with: its turn gets zero.
    """
    met: dict[Hashable, list[tuple[int, int]]] = {}
    for episode, states in enumerate(states_E_T):
        for turn, state in enumerate(states):
            met.setdefault(state, []).append((episode, turn))
    values_E_T = [np.zeros(len(states)) for states in states_E_T]
    for places in met.values():
        within = group_advantages([returns_E_T[e][t] for e, t in places], scale=scale)
        for (episode, turn), value in zip(places, within.values, strict=True):
            values_E_T[episode][turn] = value
    return values_E_T


def generalised_advantages(
    values_T: Sequence[float], rewards_T: Sequence[float], *, gamma: float, gae_lambda: float
) -> tuple[Floats, Floats]:
    """Advantages of the steps of an episode, and the returns its values should have told.

    Schulman et al. 2016. Nothing is expected after the last step: an episode that a limit cut
    short is judged by what it earned.
    """
    advantages_T = np.zeros(len(rewards_T))
    ahead, value_ahead = 0.0, 0.0
    for at in reversed(range(len(rewards_T))):
        surprise = rewards_T[at] + gamma * value_ahead - values_T[at]
        ahead = surprise + gamma * gae_lambda * ahead
        advantages_T[at] = ahead
        value_ahead = values_T[at]
    return advantages_T, advantages_T + np.asarray(values_T, dtype=np.float64)


def whitened(values_N: Floats) -> Floats:
    """Mean 0 and sample deviation 1; fewer than two values, or equal ones, become 0."""
    if len(values_N) < 2:
        return np.zeros_like(values_N)
    deviation = float(values_N.std(ddof=1))
    if deviation <= SAME_REWARD:
        return np.zeros_like(values_N)
    standardised: Floats = (values_N - values_N.mean()) / (deviation + SAME_REWARD)
    return standardised


def spread_factors(advantages: Mapping[str, Floats]) -> dict[str, float]:
    """What to multiply each environment's advantages with, so that all have the same spread.

    The spread is the root mean square over tokens; that of all tokens together is kept, so an
    environment by itself is left as it is. One without any spread is left alone.
    """
    if len(advantages) == 1:
        return dict.fromkeys(advantages, 1.0)
    spreads = {part: math.sqrt(float(np.mean(a**2))) for part, a in advantages.items()}
    whole = math.sqrt(float(np.mean(np.concatenate(list(advantages.values())) ** 2)))
    return {p: whole / spread if spread > SAME_REWARD else 1.0 for p, spread in spreads.items()}


def overlong_penalty(num_tokens: int, *, max_tokens: int, buffer: int, penalty: float) -> float:
    """DAPO's soft punishment (Yu et al. 2025, equation 13): 0, then falling to `-penalty`."""
    over = num_tokens - (max_tokens - buffer)
    return -penalty * min(1.0, max(0, over) / buffer)
