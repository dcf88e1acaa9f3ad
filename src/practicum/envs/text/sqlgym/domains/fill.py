"""What fills the columns of a generated database."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

from practicum.envs.text.sqlgym.rng import Rng

Value = str | int | float | None
Fill = Callable[[Rng], Value]


def whole(low: int, high: int) -> Fill:
    """Draw a whole number."""
    return lambda rng: rng.between(low, high)


def real(low: int, high: int, digits: int) -> Fill:
    """Draw a decimal number."""
    scale = 10**digits
    return lambda rng: rng.between(low * scale, high * scale) / scale


def skewed(values: tuple[str, ...]) -> Fill:
    """Draw a text, the first ones more often."""
    return lambda rng: values[skewed_index(rng, len(values))]


def skewed_index(rng: Rng, end: int) -> int:
    """Draw a whole number in [0, end), small ones more often."""
    unit = rng.unit()
    return int(unit * (0.35 + 0.65 * unit) * end)


def day(first: str, last: str) -> Fill:
    """Draw a day between two, as `YYYY-MM-DD`."""
    start, end = date.fromisoformat(first).toordinal(), date.fromisoformat(last).toordinal()
    return lambda rng: date.fromordinal(rng.between(start, end)).isoformat()


def sometimes_missing(fill: Fill) -> Fill:
    """Leave about one value in seven empty."""
    return lambda rng: None if rng.below(7) == 0 else fill(rng)


def words(*parts: tuple[str, ...]) -> Fill:
    """Draw one word of each part and join them."""
    return lambda rng: " ".join(rng.choice(part) for part in parts)
