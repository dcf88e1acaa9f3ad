"""What each RL algorithm can be told. A setting stands where it has a meaning and nowhere else."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field
from pydantic.functional_validators import BeforeValidator

from practicum.config.base import StrictConfig


class _Algorithm(StrictConfig):
    """What every algorithm has."""

    credits_turns: ClassVar[bool] = False
    """Can tell turns apart by what they earned."""

    clip_low: float = Field(0.2, gt=0)
    clip_high: float = Field(0.2, gt=0)
    """How far down and up a ratio to the sampling policy may move and still pay."""
    minibatches: int = Field(1, ge=1)
    """Optimiser steps for one pass over an update's episodes."""
    epochs: int = Field(1, ge=1)
    """Passes over them."""
    kl: float = Field(0.0, ge=0)
    """Weight of the divergence from the model training started with."""
    mismatch_cap: float | None = Field(2.0, gt=0)
    """Truncate the weights that correct the sampler's log-probabilities here; null: no weights."""

    def value_rate(self, learning_rate: float) -> float | None:
        """Learning rate of the value head; None: there is none."""
        return None


class GrpoConfig(_Algorithm):
    """Rewards centred in their group; the loss is a mean over tokens."""

    name: Literal["grpo"] = "grpo"
    scale: Literal["none", "std"] = "none"
    """Divide advantages by the standard deviation of their group, or not."""
    negative_weight: float = Field(1.0, ge=0, le=1)
    """Advantages below zero are multiplied by this; 0 learns from the better episodes alone."""
    refused_weight: float = Field(1.0, ge=0, le=1)
    """Advantages above zero are multiplied by this at turns the world refused or could not read;
    0: a mistake on the way to success is not learned from."""


class DrGrpoConfig(_Algorithm):
    """Rewards centred in their group; the loss of an episode is a sum, over a constant."""

    name: Literal["dr_grpo"]
    episode_tokens: int = Field(ge=1)
    """The constant: about what an episode may sample. It takes the place of its own length."""


class RlooConfig(_Algorithm):
    """Each episode against the mean of the others; an episode is one action."""

    name: Literal["rloo"]


class ReinforcePpConfig(_Algorithm):
    """REINFORCE++: advantages standardised over all tokens of the update; no group is needed."""

    credits_turns: ClassVar[bool] = True

    name: Literal["reinforce_pp"]
    baseline: Literal["none", "group"] = "none"
    """`group`: take the mean of the group off first, as REINFORCE++-baseline does."""


class OverlongConfig(StrictConfig):
    """DAPO's soft punishment of what was too long."""

    max_tokens: int = Field(ge=1)
    """Sampled tokens of an episode, from which on the whole penalty is due."""
    buffer: int = Field(ge=1)
    """Tokens before that over which the penalty grows from nothing."""
    penalty: float = Field(1.0, gt=0)


class DapoConfig(_Algorithm):
    """Clip-higher, a mean over tokens, groups without variance replaced, overlong handled."""

    name: Literal["dapo"]
    clip_high: float = Field(0.28, gt=0)
    scale: Literal["none", "std"] = "std"
    mask_cut: bool = False
    """Leave out episodes that a limit of turns or context ended."""
    overlong: OverlongConfig | None = None


class GspoConfig(_Algorithm):
    """One ratio for a whole episode, the geometric mean of its tokens'."""

    name: Literal["gspo"]
    clip_low: float = Field(3e-4, gt=0)
    clip_high: float = Field(4e-4, gt=0)
    scale: Literal["none", "std"] = "std"


class GigpoConfig(_Algorithm):
    """GRPO, and beside it the same within each group for turns taken in the same state."""

    credits_turns: ClassVar[bool] = True

    name: Literal["gigpo"]
    scale: Literal["none", "std"] = "none"
    step_weight: float = Field(1.0, ge=0)
    """Of the advantage within a state, beside that within the group."""
    gamma: float = Field(0.95, gt=0, le=1)
    """Discount of later turns' rewards in a turn's return."""


class PpoConfig(_Algorithm):
    """A value head in place of groups, and generalised advantage estimation."""

    credits_turns: ClassVar[bool] = True

    name: Literal["ppo"]
    level: Literal["turn", "token"] = "turn"
    """What a step is: the value is learnt and credit handed on per turn, or per token."""
    gamma: float = Field(1.0, gt=0, le=1)
    gae_lambda: float = Field(0.95, ge=0, le=1)
    value_weight: float = Field(0.5, gt=0)
    value_clip: float | None = Field(0.2, gt=0)
    """How far a value may move in an update and still be paid for it; null: any."""
    value_learning_rate: float | None = Field(None, gt=0)
    """Of the value head, which starts at zero; unset: ten times the optimiser's."""
    whiten: bool = True
    """Standardise advantages over the tokens of the update."""

    def value_rate(self, learning_rate: float) -> float:
        """That of the head."""
        return self.value_learning_rate or 10 * learning_rate


def _grpo_unless_named(value: Any) -> Any:
    return {"name": "grpo", **value} if isinstance(value, dict) else value


AlgorithmConfig = Annotated[
    GrpoConfig
    | DrGrpoConfig
    | RlooConfig
    | ReinforcePpConfig
    | DapoConfig
    | GspoConfig
    | GigpoConfig
    | PpoConfig,
    Field(discriminator="name"),
    BeforeValidator(_grpo_unless_named),
]
"""By `name`; without one it is GRPO."""
