"""How an attempt at a desktop task ended: judged, or broken in one of three named ways."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from practicum.core.errors import EpisodeError, ErrorInfo

SETUP = "setup"
"""The `kind` of an error in a task's set-up."""
TIMEOUT = "timeout"


class Verdict(StrEnum):
    """What can be said about an attempt. Only `GRADED` says something about the agent."""

    GRADED = "graded"
    SETUP_ERROR = "set-up error"
    INFRASTRUCTURE_ERROR = "infrastructure error"
    TIMEOUT = "timeout"


def verdict_of(error: EpisodeError | ErrorInfo | None) -> Verdict:
    """Name the verdict for an episode that ended with an error, or without one."""
    if error is None:
        return Verdict.GRADED
    kind = error.kind.rpartition("/")[2]
    if kind == SETUP:
        return Verdict.SETUP_ERROR
    return Verdict.TIMEOUT if kind == TIMEOUT else Verdict.INFRASTRUCTURE_ERROR


@dataclass(frozen=True, slots=True)
class Grade:
    """A score and the parts it is made of."""

    score: float
    """Between 0 and 1."""
    parts: Mapping[str, float] = field(default_factory=dict)
    """One entry per check."""

    @property
    def is_success(self) -> bool:
        """All that was asked for is done."""
        return self.score >= 1.0
