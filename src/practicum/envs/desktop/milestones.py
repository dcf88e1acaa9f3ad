"""Milestones: what was reached on the way, kept once reached.

They report progress, a share between 0 and 1 by weight. Progress is no reward: the verdict
comes from the checks alone, and what turns are paid for progress is decided by a judge
(`rewards/milestones.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from practicum.envs.desktop.checks import Evidence, holds
from practicum.envs.desktop.spec import Milestone


class Milestones:
    """The milestones of one episode and those reached so far."""

    def __init__(self, milestones: Sequence[Milestone], *, ordered: bool) -> None:
        self._milestones = milestones
        self._ordered = ordered
        self._reached: set[str] = set()

    @property
    def progress(self) -> float | None:
        """The weighted share reached; it never falls. None where a task has no milestones."""
        if not self._milestones:
            return None
        total = sum(m.weight for m in self._milestones)
        return sum(m.weight for m in self._milestones if m.name in self._reached) / total

    @property
    def reached(self) -> tuple[str, ...]:
        """Names of those reached, in the order of the task."""
        return tuple(m.name for m in self._milestones if m.name in self._reached)

    async def look(self, evidence: Evidence, *, is_end: bool) -> None:
        """Look for those not reached yet."""
        for milestone in self._milestones:
            if milestone.name in self._reached:
                continue
            if (is_end or milestone.at == "turn") and await holds(milestone.check, evidence):
                self._reached.add(milestone.name)
            elif self._ordered:
                return
