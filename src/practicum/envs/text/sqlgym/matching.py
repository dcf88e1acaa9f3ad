"""When two query results are the same: rows as a set, as a bag or as a list.

- `set`: the same different rows, as BIRD and AgentGym judge.
- `bag`: the same rows equally often, in any order.
- `list`: the same rows in the same order, for questions that ask for an order.

Columns are compared by place, not by name. Whole and decimal numbers are compared by value
and decimals within a tolerance, since sums come out differently in other orders and in
other SQLite versions. This module is also loaded by the guard process: standard library
only.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Literal

Cell = str | bytes | int | float | None
Row = tuple[Cell, ...]
Match = Literal["set", "bag", "list"]

RELATIVE_TOLERANCE = 1e-6
ABSOLUTE_TOLERANCE = 1e-9
_MAX_LEFTOVERS = 2_000

_NOISE = re.compile(
    r"--[^\n]*|/\*.*?(?:\*/|\Z)|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|\[[^\]]*\]", re.DOTALL
)
_INNERMOST = re.compile(r"\([^()]*\)")
_ORDER = re.compile(r"\border\s+by\b", re.IGNORECASE)


def has_top_level_order(sql: str) -> bool:
    """Whether a query asks for an order, inner queries and windows left aside."""
    text = _NOISE.sub(" x ", sql)
    while True:
        flatter = _INNERMOST.sub(" x ", text)
        if flatter == text:
            return _ORDER.search(text) is not None
        text = flatter


def is_match(answer: Iterable[Row], gold: Sequence[Row], how: Match) -> bool:
    """Compare a result with the reference; reads no more of the answer than it must."""
    if how == "list":
        rows = list(islice(answer, len(gold) + 1))
        return len(rows) == len(gold) and all(map(_is_close_row, rows, gold))
    if how == "bag":
        rows = list(islice(answer, len(gold) + 1))
        return len(rows) == len(gold) and _is_same_bag(rows, gold)
    return _is_same_set(answer, gold)


def _is_same_bag(rows: Sequence[Row], gold: Sequence[Row]) -> bool:
    wanted = Counter(map(_key, gold))
    left: list[Row] = []
    for row in rows:
        key = _key(row)
        if wanted[key] > 0:
            wanted[key] -= 1
        else:
            left.append(row)
    if not left:
        return True
    # Equal keys are close, but close numbers can round to different keys: pair the rest.
    missing: list[Row] = []
    for row in reversed(gold):
        key = _key(row)
        if wanted[key] > 0:
            wanted[key] -= 1
            missing.append(row)
    return len(left) <= _MAX_LEFTOVERS and _pair_off(left, missing)


def _pair_off(left: Sequence[Row], missing: list[Row]) -> bool:
    for row in left:
        partner = next((m for m in missing if _is_close_row(row, m)), None)
        if partner is None:
            return False
        missing.remove(partner)
    return True


def _is_same_set(answer: Iterable[Row], gold: Sequence[Row]) -> bool:
    wanted = {_key(row): row for row in gold}
    unseen = dict(wanted)
    strays: list[Row] = []
    for row in answer:
        key = _key(row)
        if key in wanted:
            unseen.pop(key, None)
        elif len(strays) < _MAX_LEFTOVERS and _has_decimals(row):
            strays.append(row)
        else:
            return False
    if any(not any(_is_close_row(row, g) for g in wanted.values()) for row in strays):
        return False
    return all(any(_is_close_row(row, g) for row in strays) for g in unseen.values())


def _has_decimals(row: Row) -> bool:
    return any(isinstance(cell, float) for cell in row)


def _key(row: Row) -> Row:
    """A row with its decimals rounded: equal keys are surely close."""
    return tuple(map(_cell_key, row))


def _cell_key(cell: Cell) -> Cell:
    if not isinstance(cell, float) or not math.isfinite(cell) or cell.is_integer():
        return cell
    return float(f"{cell:.7e}")


def _is_close_row(one: Row, other: Row) -> bool:
    return len(one) == len(other) and all(map(_is_close, one, other))


def _is_close(one: Cell, other: Cell) -> bool:
    if isinstance(one, float) or isinstance(other, float):
        if isinstance(one, (int, float)) and isinstance(other, (int, float)):
            return one == other or math.isclose(
                one, other, rel_tol=RELATIVE_TOLERANCE, abs_tol=ABSOLUTE_TOLERANCE
            )
        return False
    return one == other
