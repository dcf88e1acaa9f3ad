"""The learning curve of a run as a picture: success large, what explains it small below."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from practicum.core.errors import ConfigError
from practicum.train.curve import Metrics, Point, held_out_points, merge_updates, training_points

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SIZE_INCHES, _DPI = (9.0, 6.0), 100
_BLUE, _RED, _GREY, _INK = "#0072B2", "#D55E00", "#B8BCC2", "#30343A"
_GROUP_KINDS = {
    "group/all_failure": ("all failed", "#E3E5E8"),
    "group/informative": ("informative", "#8FD3BD"),
    "group/all_success": ("all solved", "#C3C8CF"),
}
_SMOOTHED_UPDATES = 5
_SMOOTHED_FROM = 15
"""A curve of fewer updates is short enough to be read without smoothing."""


def draw_curve(rows: Iterable[Metrics], path: Path, *, title: str, subtitle: str = "") -> None:
    """Draw a run's learning curve as a PNG of 900 x 600."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigError(
            "the learning curve needs matplotlib: pip install 'practicum[train]'"
        ) from error
    merged = merge_updates(rows)
    if not training_points(merged) and not held_out_points(merged):
        raise ConfigError("there is no learning curve without a measured success: train longer")
    # A figure of its own: pyplot would keep it alive and choose a backend for the whole process.
    figure = Figure(figsize=_SIZE_INCHES, dpi=_DPI, facecolor="white")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(
        2, 3, height_ratios=(2.5, 1), left=0.066, right=0.9, top=0.825, bottom=0.065,
        hspace=0.4, wspace=0.28,
    )  # fmt: skip
    figure.text(0.022, 0.945, title, fontsize=15, fontweight="bold", color=_INK)
    figure.text(0.022, 0.905, subtitle, fontsize=9.5, color="#6A7078")
    _draw_success(figure.add_subplot(grid[0, :]), merged)
    _draw_reward(figure.add_subplot(grid[1, 0]), merged)
    _draw_groups(figure.add_subplot(grid[1, 1]), merged)
    _draw_mismatch(figure.add_subplot(grid[1, 2]), merged)
    figure.savefig(path)


def _draw_success(axes: Axes, rows: Sequence[Metrics]) -> None:
    _style(axes, rows)
    training, held_out = training_points(rows), held_out_points(rows)
    if training:
        updates = [p.update for p in training]
        means = [p.mean for p in training]
        axes.fill_between(
            updates, [p.low for p in training], [p.high for p in training],
            color=_BLUE, alpha=0.13, linewidth=0, label="95 % interval of an update",
        )  # fmt: skip
        if len(training) >= _SMOOTHED_FROM:
            axes.plot(updates, means, color=_BLUE, alpha=0.35, linewidth=1)
            label = f"training groups (mean of {_SMOOTHED_UPDATES} updates)"
            axes.plot(updates, _smoothed(means), color=_BLUE, linewidth=2.2, label=label)
        else:
            axes.plot(updates, means, "o-", markersize=4, color=_BLUE, linewidth=2.2,
                label="training groups",
            )  # fmt: skip
    if held_out:
        _draw_held_out(axes, held_out)
    axes.set_ylim(0, 1)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100 %"])
    axes.set_title("success", loc="left", fontsize=10.5, color=_INK, pad=7)
    axes.set_xlabel("update", fontsize=9, color="#6A7078", loc="right", labelpad=1)
    axes.legend(
        loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3, frameon=False, fontsize=9,
        labelcolor=_INK, handlelength=1.6, columnspacing=1.6, borderaxespad=0.2,
    )  # fmt: skip


def _draw_held_out(axes: Axes, points: Sequence[Point]) -> None:
    means = [p.mean for p in points]
    # Rounding can leave a bound a hair on the wrong side of its mean; a length cannot be negative.
    below = [max(0.0, p.mean - p.low) for p in points]
    above = [max(0.0, p.high - p.mean) for p in points]
    axes.errorbar(
        [p.update for p in points], means, yerr=[below, above], color=_RED, fmt="o-",
        markersize=6.5, markeredgecolor="white", markeredgewidth=1.2, linewidth=1.4, elinewidth=1.6,
        capsize=3, zorder=5, clip_on=False, label="held-out tasks",
    )  # fmt: skip
    first, last = points[0], points[-1]
    label: dict[str, Any] = {
        "textcoords": "offset points",
        "fontsize": 11.5,
        "fontweight": "bold",
        "color": _RED,
    }
    if len(points) > 1:
        is_high = first.high > 0.9  # no room above: write below
        axes.annotate(
            f"{100 * first.mean:.1f} %", (first.update, first.low if is_high else first.high),
            xytext=(-4, -6 if is_high else 6), va="top" if is_high else "bottom", **label,
        )  # fmt: skip
    # Beside the plot, where no line can cross it.
    axes.annotate(
        f"{100 * last.mean:.1f} %", (last.update, last.mean), xytext=(9, 0), va="center", **label
    )


def _draw_reward(axes: Axes, rows: Sequence[Metrics]) -> None:
    _style(axes, rows)
    _title(axes, "mean reward")
    updates, values = _series(rows, "reward/mean")
    if not values:
        _not_measured(axes)
        return
    axes.plot(updates, values, _line_style(rows), color=_BLUE, linewidth=1.6, markersize=3)
    if min(values) >= 0 and max(values) <= 1:
        axes.set_ylim(0, 1)


def _draw_groups(axes: Axes, rows: Sequence[Metrics]) -> None:
    _style(axes, rows)
    _title(axes, "training groups by outcome")
    counted = [row for row in rows if sum(row.get(kind, 0) for kind in _GROUP_KINDS) > 0]
    if not counted:
        _not_measured(axes)
        return
    updates = [row["update"] for row in counted]
    middle = len(counted) // 2
    bottoms = [0.0] * len(counted)
    for kind, (name, colour) in _GROUP_KINDS.items():
        shares = [row.get(kind, 0) / sum(row.get(k, 0) for k in _GROUP_KINDS) for row in counted]
        axes.bar(updates, shares, 1.0, bottoms, color=colour, edgecolor=colour, linewidth=0.3)
        if shares[middle] > 0.14:  # else it is thinner than its own name
            y = bottoms[middle] + shares[middle] / 2
            axes.text(updates[middle], y, name, ha="center", va="center", fontsize=8.5, color=_INK)
        bottoms = [bottom + share for bottom, share in zip(bottoms, shares, strict=True)]
    axes.set_ylim(0, 1)
    axes.set_yticks([0, 0.5, 1], ["0", "50", "100 %"])


def _draw_mismatch(axes: Axes, rows: Sequence[Metrics]) -> None:
    _style(axes, rows)
    _title(axes, "sampler/trainer gap in log-prob.")
    drawn = False
    for name, colour, width in (("max", _GREY, 1.2), ("mean", _BLUE, 1.6)):
        updates, values = _series(rows, f"mismatch/{name}")
        positive = [(u, v) for u, v in zip(updates, values, strict=True) if v > 0]
        if positive:
            axes.plot(
                *zip(*positive, strict=True), _line_style(rows), markersize=3, color=colour,
                linewidth=width, label=name,
            )  # fmt: skip
            drawn = True
    if not drawn:
        _not_measured(axes)
        return
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.set_ylim(10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high)))
    axes.minorticks_off()
    axes.legend(
        loc="upper right", frameon=False, fontsize=8, labelcolor=_INK, ncols=2, handlelength=1.2,
        columnspacing=1, borderaxespad=0.1,
    )  # fmt: skip


def _series(rows: Sequence[Metrics], name: str) -> tuple[list[float], list[float]]:
    found = [(row["update"], row[name]) for row in rows if name in row]
    return [update for update, _ in found], [value for _, value in found]


def _smoothed(values: Sequence[float]) -> list[float]:
    """Average each value with its neighbours; fewer of them at the ends."""
    half = _SMOOTHED_UPDATES // 2
    windows = [values[max(0, i - half) : i + half + 1] for i in range(len(values))]
    return [math.fsum(window) / len(window) for window in windows]


def _line_style(rows: Sequence[Metrics]) -> str:
    return "-" if len(rows) >= _SMOOTHED_FROM else "o-"


def _title(axes: Axes, text: str) -> None:
    axes.set_title(text, loc="left", fontsize=9, color=_INK, pad=5)


def _not_measured(axes: Axes) -> None:
    axes.text(
        0.5, 0.5, "not measured", transform=axes.transAxes, ha="center", va="center", fontsize=9,
        color=_GREY,
    )  # fmt: skip
    axes.set_yticks([])


def _style(axes: Axes, rows: Sequence[Metrics]) -> None:
    from matplotlib.ticker import MaxNLocator

    first, last = min(row["update"] for row in rows), max(row["update"] for row in rows)
    margin = max(0.5, 0.012 * (last - first))
    axes.set_xlim(first - margin, last + margin)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=7, steps=[1, 2, 5, 10]))
    axes.grid(axis="y", color="#E8EAED", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8.5, colors="#6A7078", length=0, pad=4)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(_GREY)
