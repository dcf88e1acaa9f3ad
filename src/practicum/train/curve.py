"""The learning curve of a run, from its metrics alone, and as text for a terminal.

Success is shown where it was measured, with its 95 % interval: on the training groups of
each update, and on held-out tasks where the run was evaluated. `curve_picture.py` draws it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

Metrics = Mapping[str, float]

_BLOCKS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class Point:
    """Success after some updates, with its 95 % interval."""

    update: int
    mean: float
    low: float
    high: float


def merge_updates(rows: Iterable[Metrics]) -> list[dict[str, float]]:
    """Give each update one row, in order; what a resumed run measured again replaces the first."""
    merged: dict[int, dict[str, float]] = {}
    for row in rows:
        merged.setdefault(int(row["update"]), {}).update(row)
    return [merged[update] for update in sorted(merged)]


def training_points(rows: Iterable[Metrics]) -> list[Point]:
    """Success on the training groups, update by update."""
    return _points(rows, "success/mean", "success/low", "success/high")


def held_out_points(rows: Iterable[Metrics]) -> list[Point]:
    """Success on held-out tasks, where it was measured."""
    return _points(rows, "eval/success", "eval/low", "eval/high")


def render_curve(
    training: Sequence[Point],
    held_out: Sequence[Point] = (),
    *,
    width: int = 60,
    height: int = 8,
) -> str:
    """Write a learning curve as text: columns are training success, dots held-out success."""
    points = [*training, *held_out]
    if not points:
        return "no success was measured"
    first, last = min(p.update for p in points), max(p.update for p in points)
    columns = _columns(training, first, last, width)
    lines = [
        [_BLOCKS[round(8 * min(1.0, max(0.0, share * height - row)))] for share in columns]
        for row in range(height)
    ]
    for point in held_out:
        row = max(0, math.ceil(point.mean * height) - 1)  # where a column of that height ends
        lines[row][_column(point.update, first, last, width)] = "●"
    labels = {height - 1: "100 %", height // 2 - 1: "50 %"}  # at the top of their rows
    text = [
        f"{labels.get(row, ''):>5} {'┤' if row in labels else '│'}{''.join(lines[row])}".rstrip()
        for row in reversed(range(height))
    ]
    text.append(f"  0 % └{'─' * width}")
    text.append(f"       {first}{f'update {last}':>{width - len(str(first))}}")
    if training:
        text.append(f"       █ training groups: {_from_to(training)}")
    if held_out:
        text.append(f"       ● held-out tasks:  {_from_to(held_out)}")
    return "\n".join(text)


def sparkline(values: Sequence[float], width: int = 24) -> str:
    """Write the last values, each between 0 and 1, as one line of small columns."""
    return "".join(_BLOCKS[1 + round(7 * min(1.0, max(0.0, v)))] for v in values[-width:])


def _points(rows: Iterable[Metrics], *names: str) -> list[Point]:
    return [
        Point(int(row["update"]), *(row[name] for name in names))
        for row in merge_updates(rows)
        if all(name in row for name in names)
    ]


def _column(update: int, first: int, last: int, width: int) -> int:
    return (update - first) * (width - 1) // max(1, last - first)


def _columns(points: Sequence[Point], first: int, last: int, width: int) -> list[float]:
    """Spread points over columns: the mean of those that share one, else the last one known."""
    found: dict[int, list[float]] = {}
    for point in points:
        found.setdefault(_column(point.update, first, last, width), []).append(point.mean)
    columns, known = [], 0.0
    end = max(found, default=-1)
    for column in range(width):
        if column in found:
            known = math.fsum(found[column]) / len(found[column])
        columns.append(known if column <= end else 0.0)
    return columns


def _from_to(points: Sequence[Point]) -> str:
    first, last = points[0], points[-1]
    if first == last:
        return _with_interval(last)
    return f"{_with_interval(first)}  →  {_with_interval(last)}"


def _with_interval(point: Point) -> str:
    return f"{100 * point.mean:.1f} % [{100 * point.low:.1f}, {100 * point.high:.1f}]"
