"""Learning curves: the right points, in text and as a picture of the right size."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import pytest
from support import require

from practicum.core.errors import ConfigError
from practicum.train.curve import (
    Point,
    held_out_points,
    merge_updates,
    render_curve,
    sparkline,
    training_points,
)
from practicum.train.curve_picture import draw_curve

ROWS: list[dict[str, float]] = [
    {"update": 0, "eval/success": 0.25, "eval/low": 0.125, "eval/high": 0.4},
    {"update": 1, "success/mean": 0.25, "success/low": 0.1, "success/high": 0.4},
    {"update": 2, "success/mean": 0.5, "success/low": 0.3, "success/high": 0.7},
    {"update": 4, "success/mean": 0.75, "success/low": 0.5, "success/high": 0.9},
    {"update": 4, "eval/success": 0.625, "eval/low": 0.5, "eval/high": 0.75},
]

TEXT = """\
100 % ┤
      │            ●
 50 % ┤      ███████
      │●  ██████████
  0 % └─────────────
       0    update 4
       █ training groups: 25.0 % [10.0, 40.0]  →  75.0 % [50.0, 90.0]
       ● held-out tasks:  25.0 % [12.5, 40.0]  →  62.5 % [50.0, 75.0]"""


def test_points_are_taken_where_success_was_measured() -> None:
    assert held_out_points(ROWS) == [Point(0, 0.25, 0.125, 0.4), Point(4, 0.625, 0.5, 0.75)]
    assert [point.update for point in training_points(ROWS)] == [1, 2, 4]


def test_what_a_resumed_run_measured_again_counts() -> None:
    rows = [{"update": 1, "lr": 1.0}, {"update": 2, "lr": 2.0, "x": 5.0}, {"update": 2, "lr": 3.0}]
    assert merge_updates(rows) == [{"update": 1, "lr": 1.0}, {"update": 2, "lr": 3.0, "x": 5.0}]


def test_a_curve_is_written_as_text() -> None:
    text = render_curve(training_points(ROWS), held_out_points(ROWS), width=13, height=4)
    assert text == TEXT


def test_many_updates_share_columns_and_none_is_outside() -> None:
    points = [Point(u, u / 1000, 0.0, 1.0) for u in range(1001)]
    lines = render_curve(points, points, width=40, height=6).split("\n")
    assert max(len(line) for line in lines[:8]) == 47
    assert lines[0].endswith("●")


def test_a_single_point_and_no_point_are_written_too() -> None:
    assert "50.0 % [40.0, 60.0]" in render_curve([Point(3, 0.5, 0.4, 0.6)])
    assert render_curve([]) == "no success was measured"


def test_a_sparkline_shows_the_last_values() -> None:
    assert sparkline([1.0, 0.0, 0.5, 1.0], width=3) == "▁▅█"
    assert sparkline([]) == ""


def test_a_line_of_any_value_stays_inside() -> None:
    assert sparkline([-1.0, 7.0]) == "▁█"


def png_size(path: Path) -> tuple[int, ...]:
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG")
    return struct.unpack(">II", data[16:24])


@pytest.mark.parametrize("num_rows", [1, 2, len(ROWS)])
def test_a_curve_is_drawn_however_little_was_measured(tmp_path: Path, num_rows: int) -> None:
    require("matplotlib", "pip install 'practicum[train]'")
    draw_curve(ROWS[:num_rows], tmp_path / "curve.png", title="model on env", subtitle="n = 8")
    assert png_size(tmp_path / "curve.png") == (900, 600)


def test_a_long_curve_with_everything_in_it_is_drawn(tmp_path: Path) -> None:
    require("matplotlib", "pip install 'practicum[train]'")
    rows = [
        {
            "update": u, "success/mean": u / 40, "success/low": 0.0, "success/high": 1.0,
            "reward/mean": u / 20, "group/informative": 3, "group/all_success": u,
            "group/all_failure": 1, "mismatch/mean": 1e-5, "mismatch/max": 1e-3 * (u % 3),
        }
        for u in range(1, 40)
    ]  # fmt: skip
    draw_curve(rows, tmp_path / "curve.png", title="model on env")
    assert png_size(tmp_path / "curve.png") == (900, 600)


def test_a_run_without_a_success_has_no_curve(tmp_path: Path) -> None:
    require("matplotlib", "pip install 'practicum[train]'")
    with pytest.raises(ConfigError, match="no learning curve without a measured success"):
        draw_curve([{"update": 1, "lr": 0.1}], tmp_path / "curve.png", title="")


def test_without_matplotlib_the_line_to_type_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ConfigError, match=r"pip install 'practicum\[train\]'"):
        draw_curve(ROWS, tmp_path / "curve.png", title="")
