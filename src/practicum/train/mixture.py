"""Which group is played next: environments take turns by their shares, tasks in their order.

Nothing here is left to chance: equal seeds and equal rewards give equal groups, and what
`to_json` writes is all that a resumed run needs to go on with the very next one.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from practicum.config.mixture import AdaptiveConfig, CurriculumConfig
from practicum.core.canonical import stable_seed
from practicum.core.episode import Episode
from practicum.core.task import Task
from practicum.rollout.play import Table
from practicum.train.order import Curriculum, Dealer, Order, Outcome, Shuffled, shares_of


@dataclass
class Part:
    """One environment of a training: where it is played, and which tasks."""

    name: str
    table: Table
    tasks: Sequence[Task]
    weight: float = 1.0
    max_turns: Callable[[int], int | None] = lambda _: None
    """The limit of turns after so many updates; None leaves the table's."""
    curriculum: CurriculumConfig | None = None
    """Unset: tasks come as a shuffle has them."""

    def order(self, seed: int) -> Order:
        """In which order its tasks are played."""
        if self.curriculum is None:
            return Shuffled(self.tasks, seed)
        return Curriculum(self.tasks, seed, self.curriculum)

    def set_horizon(self, update: int) -> None:
        """Let episodes that start from here on have as many turns as are due."""
        max_turns = self.max_turns(update)
        if max_turns is not None:
            limits = replace(self.table.limits, max_turns=max_turns)
            self.table = replace(self.table, limits=limits)


@dataclass
class OpenGroup:
    """A group that is being played, and the members that have ended."""

    number: int
    part: Part
    task: Task
    seed: int
    ended: dict[int, Episode] = field(default_factory=dict)
    """By sample."""
    version: int = 0
    """Updates the weights had seen when it began."""

    def to_json(self) -> dict[str, Any]:
        """What a checkpoint notes of it; the episodes themselves are in the run's file."""
        episodes = {str(sample): episode.id for sample, episode in self.ended.items()}
        return {
            "number": self.number,
            "part": self.part.name,
            "task_id": self.task.id,
            "seed": self.seed,
            "episodes": episodes,
            "version": self.version,
        }


class Mixture:
    """The environments of a training and whose turn it is."""

    def __init__(
        self, parts: Sequence[Part], seed: int, adaptive: AdaptiveConfig | None = None
    ) -> None:
        self.parts = {part.name: part for part in parts}
        self._adaptive = adaptive
        is_one = len(parts) == 1
        self._orders = {
            part.name: part.order(seed if is_one else stable_seed(seed, part.name))
            for part in parts
        }
        self._dealer = Dealer(self.parts)
        self._recent: dict[str, deque[float]] = {
            name: deque(maxlen=adaptive.window if adaptive else 0) for name in self.parts
        }
        """Mean rewards of its last groups, the oldest first."""
        self._num_started = 0

    def next(self) -> OpenGroup:
        """The next group, of the environment that is owed most."""
        name = self._dealer.deal(self.shares())
        number = self._num_started
        self._num_started += 1
        return OpenGroup(number, self.parts[name], *self._orders[name].next())

    def shares(self) -> dict[str, float]:
        """Each environment's share of the groups that start now."""
        weights = {name: part.weight for name, part in self.parts.items()}
        if self._adaptive is None:
            return shares_of(weights, 0.0)
        if all(len(recent) == recent.maxlen for recent in self._recent.values()):
            moved = {n: weights[n] * learning_progress(self._recent[n]) for n in weights}
            weights = moved if any(moved.values()) else weights
        return shares_of(weights, self._adaptive.floor)

    def difficulty_shares(self) -> dict[str, dict[str, float]]:
        """By environment, what its curriculum plays now; environments without one are left out."""
        found = {name: order.shares() for name, order in self._orders.items()}
        return {name: shares for name, shares in found.items() if shares}

    def observe(self, name: str, outcomes: Sequence[Outcome]) -> None:
        """Take note of what came of groups of an environment."""
        self._recent[name].extend(outcome.mean_reward for outcome in outcomes)
        self._orders[name].observe(outcomes)

    def set_horizon(self, update: int) -> None:
        """Let new episodes have as many turns as are due after so many updates."""
        for part in self.parts.values():
            part.set_horizon(update)

    def to_json(self) -> dict[str, Any]:
        """All that decides what comes next."""
        return {
            "started": self._num_started,
            "orders": {name: order.to_json() for name, order in self._orders.items()},
            "credits": dict(self._dealer.credits),
            "recent": {name: list(recent) for name, recent in self._recent.items()},
        }

    def take_up(self, saved: Mapping[str, Any]) -> None:
        """Go on from what `to_json` wrote."""
        self._num_started = saved["started"]
        self._dealer.credits.update(saved["credits"])
        for name, order in self._orders.items():
            order.take_up(saved["orders"][name])
            self._recent[name].extend(saved["recent"][name])


def learning_progress(mean_rewards: Sequence[float]) -> float:
    """How far rewards have moved: the newer half against the older, less the standard error.

    Falling counts like rising: what is being forgotten is played again. Absolute progress over
    two half windows is Baranes and Oudeyer's (2013); the standard error keeps chance, which is
    largest where half of the episodes succeed, from passing for progress.
    """
    rewards = list(mean_rewards)
    older, newer = rewards[: len(rewards) // 2], rewards[len(rewards) // 2 :]
    gap = abs(math.fsum(newer) / len(newer) - math.fsum(older) / len(older))
    error = math.sqrt(_variance(older) / len(older) + _variance(newer) / len(newer))
    return max(0.0, gap - error)


def _variance(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values) / max(1, len(values) - 1)
