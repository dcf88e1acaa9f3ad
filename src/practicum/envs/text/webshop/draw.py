"""Choices by hash: the same for the same key, on every machine and Python version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from practicum.core.canonical import stable_seed

T = TypeVar("T")

Key = str | int


def below(bound: int, *key: Key) -> int:
    """A number from 0 to bound - 1."""
    return stable_seed("webshop", *key) % bound


def pick(items: Sequence[T], *key: Key) -> T:
    """One of the items."""
    return items[below(len(items), *key)]


def shuffle(items: Sequence[T], *key: Key) -> list[T]:
    """All the items in another order."""
    ranked = sorted(range(len(items)), key=lambda i: (stable_seed("webshop", *key, i), i))
    return [items[i] for i in ranked]


def price_limit(price: float, *key: Key) -> float | None:
    """WebShop's price limit: the higher of two of the next four tens above the price.

    The original draws the two; here they follow from the key. None where fewer than two
    limits are left, as in the original.
    """
    tens = [10.0 * i for i in range(1, 100) if 10.0 * i > price][:4]
    if len(tens) < 2:
        return None
    return max(shuffle(tens, "price limit", *key)[:2])
