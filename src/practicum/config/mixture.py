"""What is played: an environment with its tasks and limits, or several at once."""

from __future__ import annotations

import re
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from practicum.config.base import StrictConfig
from practicum.config.eval import LimitsConfig

Names = Annotated[list[str], Field(min_length=1)]

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")


class HorizonConfig(StrictConfig):
    """From which update on how many turns an episode may have."""

    update: int = Field(ge=0)
    max_turns: int = Field(ge=1)


Horizon = Annotated[list[HorizonConfig], Field(min_length=1)]


class CurriculumConfig(StrictConfig):
    """Play more of the difficulties whose groups teach something just now."""

    floor: float = Field(0.1, gt=0, lt=1)
    """Share of the groups that every difficulty keeps."""
    window: int = Field(32, ge=4)
    """Groups of a difficulty that are looked back on."""


class PartEvaluateConfig(StrictConfig):
    """What is judged otherwise in one environment of a mixture; unset: as `evaluate` says."""

    panel: str | None = None
    samples: int | None = Field(None, ge=1)
    max_tasks: int | None = Field(None, ge=1)
    max_turns: int | None = Field(None, ge=1)


class PartConfig(StrictConfig):
    """One environment: which of its tasks are trained on, and within which limits."""

    env: str = ""
    """Unset: the name it has in the mixture."""
    weight: float = Field(1.0, gt=0)
    """Its share of the groups played, beside the other weights."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Settings of the environment itself."""
    panel: str | Names = "train"
    """One panel or several, as in `[train, train~2]`."""
    difficulties: Names | None = None
    """Only tasks of these, as in `depth 1`; unset: all."""
    max_tasks: int | None = Field(None, ge=1)
    """Use this many tasks of the panel, drawn by the run's seed."""
    variants: int = Field(1, ge=1)
    """Prompt variants of a task, where the environment has them."""
    limits: LimitsConfig | None = None
    """Unset: the run's `limits`."""
    dense: float = Field(0.0, ge=0)
    """Weight of progress towards the goal, paid to each turn by milestones or by the expert's
    count of what is left; for algorithms that give turns credit of their own."""
    horizon: Horizon | None = None
    """Turns of training episodes as updates go by, as in `[{update: 0, max_turns: 6}, …]`."""
    curriculum: CurriculumConfig | None = None
    """Unset: tasks come as a shuffle has them."""
    evaluate: PartEvaluateConfig = PartEvaluateConfig()

    def max_turns(self, update: int) -> int | None:
        """The limit of turns after so many updates, by the schedule; None: there is no schedule."""
        due = [step.max_turns for step in self.horizon or () if step.update <= update]
        return due[-1] if due else None

    @model_validator(mode="after")
    def _check_horizon(self) -> Self:
        updates = [step.update for step in self.horizon or ()]
        if updates and (updates[0] != 0 or updates != sorted(set(updates))):
            raise ValueError("horizon must begin with update 0 and go on with later ones")
        return self


class AdaptiveConfig(StrictConfig):
    """Play more where success changes: shares follow learning progress."""

    floor: float = Field(0.1, gt=0, lt=1)
    """Share of the groups that every environment keeps."""
    window: int = Field(32, ge=4)
    """Groups of an environment that its progress is told from: the newer half against the older."""


class MixtureConfig(StrictConfig):
    """Several environments in one training."""

    envs: Annotated[dict[str, PartConfig], Field(min_length=2)]
    """By name: an environment's id, or any name where `env` says which one it is."""
    normalise: bool = False
    """Give the advantages of every environment the same spread; see docs/training.md."""
    adaptive: AdaptiveConfig | None = None
    """Unset: shares stay as the weights say."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        for name in self.envs:
            if not _NAME.fullmatch(name):
                raise ValueError(
                    f"{name!r} cannot be part of a metric's name: take letters, digits and -_., "
                    "and say which environment it is with env"
                )
        if self.adaptive is not None and self.adaptive.floor * len(self.envs) > 1:
            raise ValueError(
                f"adaptive.floor={self.adaptive.floor:g} for each of {len(self.envs)} environments "
                "is more than there is: lower it"
            )
        return self
