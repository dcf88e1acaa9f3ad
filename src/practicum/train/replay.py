"""Rare successes, kept to be learned from again.

A task that succeeds once in eight tries is forgotten easily: by the time it comes round
again, the episode that solved it lies many updates back. Its successes are kept here, and a
few are imitated in every update, until the task succeeds more often.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from practicum.config.train import ReplayConfig
from practicum.core.canonical import stable_seed
from practicum.core.episode import Episode
from practicum.train.algorithms.base import JudgedGroup


class ReplayStore:
    """A bounded number of successful episodes, the oldest first."""

    def __init__(self, config: ReplayConfig, episodes: Iterable[Episode] = ()) -> None:
        self._config = config
        self._kept: list[Episode] = list(episodes)

    @property
    def episodes(self) -> Sequence[Episode]:
        """All that is kept."""
        return self._kept

    def observe(self, groups: Iterable[JudgedGroup]) -> None:
        """Keep successes of tasks that rarely succeed; let go of tasks that no longer do."""
        config = self._config
        for group in groups:
            judged = group.group.judged
            wins = [e for e in judged if e.reward and e.reward.is_success]
            if not wins:
                continue
            task_id = group.group.task.id
            if len(wins) > config.max_success * len(judged):
                self._kept = [e for e in self._kept if e.task_id != task_id]
                continue
            same = [e for e in self._kept if e.task_id == task_id]
            surplus = {e.id for e in [*same, *wins][: -config.per_task]}
            self._kept = [e for e in [*self._kept, *wins] if e.id not in surplus]
        self._kept = self._kept[-config.size :]

    def draw(self, seed: int, update: int) -> list[Episode]:
        """The episodes an update learns from again."""
        order = sorted(self._kept, key=lambda e: stable_seed(seed, "replay", update, e.id))
        return order[: self._config.per_update]
