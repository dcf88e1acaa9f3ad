"""What an episode was worth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from practicum.core.episode import Episode
    from practicum.core.task import Task


@dataclass(frozen=True, slots=True)
class Reward:
    """A verdict on a finished episode."""

    value: float
    """Between 0 and 1 unless the environment documents otherwise."""
    is_success: bool
    parts: Mapping[str, float] = field(default_factory=dict)
    """What the value is made of, by name; informative only."""
    dense: tuple[float, ...] = ()
    """Paid to single turns for progress, one each or none at all; never part of the value."""


class RewardFn(Protocol):
    """Judges a finished episode. Never changes it; never sees a broken one."""

    async def __call__(self, task: Task, episode: Episode) -> Reward:
        """Judge the episode, or raise `RewardError` if that is not possible."""
        ...
