"""In which order tasks are played: a shuffle, or a curriculum over their difficulties.

Nothing here is left to chance: equal seeds and equal outcomes give equal tasks, and what
`to_json` writes is all that a resumed run needs to go on with the very next one.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from practicum.config.mixture import CurriculumConfig
from practicum.core.canonical import stable_seed
from practicum.core.task import Task


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a group."""

    difficulty: str
    mean_reward: float
    teaches: bool
    """Its rewards differ."""


class Order(Protocol):
    """Hands out tasks without end."""

    def next(self) -> tuple[Task, int]:
        """The next task, and the seed of the group that will play it."""

    def observe(self, outcomes: Iterable[Outcome]) -> None:
        """Take note of what came of groups."""

    def shares(self) -> dict[str, float]:
        """Each difficulty's share of the groups that start now; empty if nothing shifts it."""

    def to_json(self) -> Any:
        """All that decides what comes next."""

    def take_up(self, saved: Any) -> None:
        """Go on from what `to_json` wrote."""


@dataclass
class Shuffled:
    """All tasks shuffled, then all of them shuffled anew."""

    tasks: Sequence[Task]
    seed: int
    position: int = 0
    """Tasks handed out so far: all there is to save."""
    _epoch: int = -1
    _order: list[Task] = field(default_factory=list)

    def next(self) -> tuple[Task, int]:
        """The next task, and the seed of the group that will play it."""
        epoch, index = divmod(self.position, len(self.tasks))
        if self._epoch != epoch:
            self._epoch = epoch
            self._order = sorted(
                self.tasks, key=lambda task: stable_seed(self.seed, "order", epoch, task.id)
            )
        seed = stable_seed(self.seed, "group", self.position)
        self.position += 1
        return self._order[index], seed

    def observe(self, outcomes: Iterable[Outcome]) -> None:
        """The order does not depend on them."""

    def shares(self) -> dict[str, float]:
        """Nothing shifts them."""
        return {}

    def to_json(self) -> int:
        """How far it is."""
        return self.position

    def take_up(self, saved: int) -> None:
        """Go on from there."""
        self.position = saved


class Curriculum:
    """More of the difficulties whose groups teach something just now.

    What always succeeds and what never does teach nothing; between the two lies what can be
    learned next, and it moves up as the policy gets better.
    """

    def __init__(self, tasks: Sequence[Task], seed: int, config: CurriculumConfig) -> None:
        names = sorted({task.difficulty for task in tasks})
        self._orders = {
            name: Shuffled(
                [task for task in tasks if task.difficulty == name], stable_seed(seed, name)
            )
            for name in names
        }
        # With many difficulties the floors together must leave something to shift.
        self._floor = min(config.floor, 0.5 / len(names))
        self._dealer = Dealer(names)
        self._recent = {name: deque[bool](maxlen=config.window) for name in names}
        """Whether its last groups taught something, the oldest first."""

    def next(self) -> tuple[Task, int]:
        """The next task, and the seed of the group that will play it."""
        return self._orders[self._dealer.deal(self.shares())].next()

    def observe(self, outcomes: Iterable[Outcome]) -> None:
        """Take note of what came of groups."""
        for outcome in outcomes:
            self._recent[outcome.difficulty].append(outcome.teaches)

    def shares(self) -> dict[str, float]:
        """Each difficulty's share of the groups that start now."""
        # One group of each kind more than was seen: nobody is written off unseen.
        weights = {
            name: (sum(recent) + 1) / (len(recent) + 2) for name, recent in self._recent.items()
        }
        return shares_of(weights, self._floor)

    def to_json(self) -> dict[str, Any]:
        """All that decides what comes next."""
        return {
            "positions": {name: order.position for name, order in self._orders.items()},
            "credits": dict(self._dealer.credits),
            "recent": {name: list(recent) for name, recent in self._recent.items()},
        }

    def take_up(self, saved: Mapping[str, Any]) -> None:
        """Go on from what `to_json` wrote."""
        self._dealer.credits.update(saved["credits"])
        for name, order in self._orders.items():
            order.position = saved["positions"][name]
            self._recent[name].extend(saved["recent"][name])


class Dealer:
    """Deals turns by shares: at any moment each has had its share to within one."""

    def __init__(self, names: Iterable[str]) -> None:
        self.credits = dict.fromkeys(names, 0.0)
        """What is owed to each, in turns."""

    def deal(self, shares: Mapping[str, float]) -> str:
        """Whose turn it is: the one who is owed most."""
        for name, share in shares.items():
            self.credits[name] += share
        name = max(self.credits, key=lambda name: self.credits[name])
        self.credits[name] -= 1
        return name


def shares_of(weights: Mapping[str, float], floor: float) -> dict[str, float]:
    """The floor for each, and the rest in proportion to the weights."""
    total = math.fsum(weights.values())
    rest = 1 - floor * len(weights)
    return {name: floor + rest * weight / total for name, weight in weights.items()}
