"""Random choices that come out the same on every machine and Python version."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

from practicum.core.canonical import stable_seed

Item = TypeVar("Item")


class Rng:
    """Draws from a stream named by its parts.

    Only `Random.random` is promised to stay the same between Python versions, and only
    multiplication between processors, so everything here is made of these two.
    """

    def __init__(self, *parts: str | int) -> None:
        self._random = Random(stable_seed(*parts))

    def unit(self) -> float:
        """A number in [0, 1)."""
        return self._random.random()

    def below(self, end: int) -> int:
        """A whole number in [0, end)."""
        return int(self.unit() * end)

    def between(self, low: int, high: int) -> int:
        """A whole number in [low, high]."""
        return low + self.below(high - low + 1)

    def choice(self, items: Sequence[Item]) -> Item:
        """One of the items."""
        return items[self.below(len(items))]

    def sample(self, items: Sequence[Item], count: int) -> list[Item]:
        """Some of the items, each at most once, in random order."""
        left = list(items)
        return [left.pop(self.below(len(left))) for _ in range(min(count, len(left)))]
