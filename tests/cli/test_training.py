"""A training shows what it does: a panel in a terminal, one line an update anywhere else."""

from __future__ import annotations

import io
import logging
import re
from pathlib import Path

import pytest
from rich.console import Console

from practicum.cli.training import TrainingProgress, update_line
from practicum.core.episode import StopReason

DOCS = Path(__file__).parents[2] / "docs"

BEFORE = {"update": 0, "eval/success": 0.325, "eval/low": 0.25, "eval/high": 0.4}
FIRST = {
    "update": 1,
    "reward/mean": 0.25,
    "success/mean": 0.25,
    "success/low": 0.116,
    "success/high": 0.384,
    "group/informative": 13,
    "group/all_success": 6,
    "group/all_failure": 12,
    "group/dropped": 1,
    "error/total": 3,
    "error/env/timeout": 2,
    "error/policy/crash": 1,
    "tokens/sampled_per_s": 41_000.0,
    "tokens/trained_per_s": 880.0,
    "time/sampling_s": 2.0,
    "time/environment_s": 0.25,
    "time/training_s": 1.5,
    "time/sync_s": 0.0,
    "time/idle_s": 0.25,
    "time/total_s": 4.0,
    "mismatch/mean": 2.6e-5,
    "mismatch/max": 8.3e-4,
}
SECOND = {**FIRST, "update": 2, "success/mean": 0.5, "error/env/timeout": 1}

LINES = [
    "update 0/4  held out 32.5 % [25.0, 40.0]",
    "update 1/4  success 25.0 % [11.6, 38.4]  reward 0.250  "
    "tokens 41.0 k/s sampled, 880/s trained  "
    "groups 13 informative, 6 all solved, 12 all failed, 1 dropped  "
    "mismatch 2.6e-05 mean, 8.3e-04 max  4.0 s  faults env/timeout 2, policy/crash 1",
]

PANEL = """\
╭─ update 2/4 ─────────────────────────────────────────────────────────────────────────╮
│ ━━━━━━━━━━━━━━━━━━━━                      1:30, about 1:30 left                      │
│ success   50.0 % [11.6, 38.4]  ▃▅                                                    │
│ held out  32.5 % [25.0, 40.0]  after update 0                                        │
│ reward    0.250                                                                      │
│ tokens    41.0 k/s sampled, 880/s trained                                            │
│ groups    13 informative, 6 all solved, 12 all failed, 1 dropped                     │
│ mismatch  2.6e-05 mean, 8.3e-04 max                                                  │
│ time      ████████████████████████████████████████  4.0 s an update                  │
│           ■ sampling 50 %  ■ environment 6 %  ■ training 38 %  ■ idle 6 %            │
│ faults    env/timeout 3, policy/crash 2                                              │
╰──────────────────────────────────────────────────────────────────────────────────────╯"""


class Clock:
    """A clock that stands still until it is told otherwise."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def make_console(*, is_terminal: bool) -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    console = Console(
        file=out, width=88, force_terminal=is_terminal, color_system=None, highlight=False,
        soft_wrap=not is_terminal, legacy_windows=False,
    )  # fmt: skip
    return console, out


def test_outside_a_terminal_every_update_is_one_line() -> None:
    console, out = make_console(is_terminal=False)
    with TrainingProgress(4, on=console) as progress:
        progress.add(BEFORE)
        progress.begin("sampling")
        progress.add(FIRST)
    assert out.getvalue().splitlines() == LINES


def test_in_a_terminal_a_panel_shows_it_all() -> None:
    console, out = make_console(is_terminal=True)
    clock = Clock()
    with TrainingProgress(4, on=console, clock=clock) as progress:
        for metrics in (BEFORE, FIRST, SECOND):
            clock.now_s += 30
            progress.add(metrics)
    assert PANEL in out.getvalue()


def test_the_panel_says_what_happens_now() -> None:
    console, out = make_console(is_terminal=True)
    with TrainingProgress(4, on=console, clock=Clock()) as progress:
        progress.begin("evaluating")
        progress.add({"update": 0})
    assert "0:00  evaluating…" in out.getvalue()


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_hidden_progress_shows_nothing_but_warnings(is_terminal: bool) -> None:
    console, out = make_console(is_terminal=is_terminal)
    with TrainingProgress(4, is_shown=False, on=console) as progress:
        progress.add(FIRST)
        assert out.getvalue() == ""
        logging.getLogger("practicum.train").warning("something to know")
    assert "something to know" in out.getvalue()


def test_what_was_not_measured_is_left_out() -> None:
    assert update_line({"update": 3, "reward/mean": 0.5}, 9) == "update 3/9  reward 0.500"
    assert update_line({"update": 3, "loss/sft": 0.5}, 9) == "update 3/9  loss 0.5000"


def test_every_name_shown_is_in_the_reference_table() -> None:
    page = (DOCS / "metrics.md").read_text()
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    documented = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
    shown = {re.sub(r"^error/(?!total).*", "error/<type>", name) for name in FIRST | BEFORE}
    assert shown <= documented
    assert all(f"`{reason}`" in page for reason in StopReason)
