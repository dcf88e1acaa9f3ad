"""Repeatable choices: each one is a hash of what it is for, never of what came before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from practicum.core.canonical import stable_seed

Option = TypeVar("Option")

SEED = "lands-1"


def pick(options: Sequence[Option], *purpose: str | int) -> Option:
    """Choose one of the options."""
    return options[stable_seed(SEED, *purpose) % len(options)]


def number(low: int, high: int, *purpose: str | int) -> int:
    """Choose a whole number from `low` to `high`, both included."""
    return low + stable_seed(SEED, *purpose) % (high - low + 1)


def shuffled(options: Iterable[str], *purpose: str | int) -> list[str]:
    """Put texts in an order that only looks random."""
    return sorted(options, key=lambda option: stable_seed(SEED, *purpose, option))
