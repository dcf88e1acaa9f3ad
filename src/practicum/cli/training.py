"""What a training shows while it runs: a live panel in a terminal, a line an update elsewhere.

Everything shown comes from the metrics of an update, as `docs/metrics.md` names them.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.logging import RichHandler
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from practicum.cli.output import console, interval
from practicum.train.curve import sparkline

Metrics = Mapping[str, float]

PHASES = {
    "sampling": "cyan",
    "environment": "green",
    "training": "magenta",
    "sync": "yellow",
    "saving": "blue",
    "idle": "bright_black",
}
_BAR_CELLS = 40
_REFRESHES_PER_S = 2


class TrainingProgress:
    """Shows update after update on standard error; also the place where warnings show up."""

    def __init__(
        self,
        num_updates: int = 0,
        *,
        is_shown: bool = True,
        on: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._num_updates = num_updates
        self._console = on or console(stderr=True)
        self._is_shown = is_shown
        self._clock = clock
        self._started = clock()
        self._activity = ""
        self._last: Metrics = {}
        self._evaluated: Metrics = {}
        self._successes: list[float] = []
        self._faults: Counter[str] = Counter()
        self._first_update: int | None = None
        self._handler = RichHandler(console=self._console, show_time=False, show_path=False)
        self._live = Live(
            console=self._console,
            get_renderable=self._panel,
            refresh_per_second=_REFRESHES_PER_S,
        )

    def expect(self, num_updates: int) -> None:
        """Say how many updates there will be, once that is known."""
        self._num_updates = num_updates

    def __enter__(self) -> TrainingProgress:
        self._started = self._clock()
        logging.getLogger("practicum").addHandler(self._handler)
        if self._is_live:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._activity = ""
        if self._is_live:
            self._live.stop()
        logging.getLogger("practicum").removeHandler(self._handler)

    def add(self, metrics: Metrics) -> None:
        """Show the metrics of one update."""
        if "eval/success" in metrics:
            self._evaluated = metrics
        if "success/mean" in metrics:
            self._successes.append(metrics["success/mean"])
        if "time/total_s" in metrics:
            self._last = metrics
            if self._first_update is None:
                self._first_update = int(metrics["update"])
        self._faults.update(_faults(metrics))
        if self._is_live:
            self._live.refresh()
        elif self._is_shown:
            self.say(update_line(metrics, self._num_updates))

    def begin(self, activity: str) -> None:
        """Say in one word or two what happens now: `sampling`, `training`, `evaluating`."""
        self._activity = activity

    def say(self, message: str) -> None:
        """Print a line above the panel."""
        self._console.print(message, markup=False)

    @property
    def _is_live(self) -> bool:
        return self._is_shown and self._console.is_terminal

    def _panel(self) -> RenderableType:
        rows = Table.grid(padding=(0, 2))
        rows.add_column(style="bright_black", no_wrap=True)
        rows.add_column(no_wrap=True, overflow="ellipsis")
        for name, value in self._rows():
            rows.add_row(name, value)
        update = int(self._last.get("update", 0))
        bar = ProgressBar(self._num_updates, min(update, self._num_updates), width=_BAR_CELLS)
        doing = f"  {self._activity}…" if self._activity else ""
        head = Table.grid(padding=(0, 2))
        head.add_row(bar, Text(self._clock_line() + doing, style="bright_black"))
        title = f"[bold]update {update}/{self._num_updates}[/]"
        return Panel(Group(head, rows), title=title, title_align="left", border_style="blue")

    def _clock_line(self) -> str:
        elapsed_s = self._clock() - self._started
        if self._first_update is None:
            return _duration(elapsed_s)
        done = int(self._last["update"]) - self._first_update + 1
        left_s = elapsed_s / done * (self._num_updates - int(self._last["update"]))
        return f"{_duration(elapsed_s)}, about {_duration(left_s)} left"

    def _rows(self) -> list[tuple[str, RenderableType]]:
        metrics = self._last
        rows: list[tuple[str, RenderableType]] = []
        if "success/mean" in metrics:
            text = Text(_success(metrics, "success/mean", "success"), style="bold")
            text.append(f"  {sparkline(self._successes)}", style="cyan")
            rows.append(("success", text))
        if "eval/success" in self._evaluated:
            text = Text(_success(self._evaluated, "eval/success", "eval"), style="bold")
            text.append(f"  after update {self._evaluated['update']}", style="bright_black")
            rows.append(("held out", text))
        if "reward/mean" in metrics:
            rows.append(("reward", Text(f"{metrics['reward/mean']:.3f}")))
        rows += [(name, Text(text)) for name, text in _details(metrics) if text]
        if any(f"time/{phase}_s" in metrics for phase in PHASES):
            rows.append(("time", _time_by_phase(metrics)))
        faults = ", ".join(f"{kind} {count}" for kind, count in sorted(self._faults.items()))
        if metrics:
            rows.append(
                ("faults", Text(faults or "none", style="yellow" if faults else "bright_black"))
            )
        return rows


def update_line(metrics: Metrics, num_updates: int) -> str:
    """Write the metrics of one update on one line."""
    parts = [f"update {int(metrics['update'])}/{num_updates}"]
    if "success/mean" in metrics:
        parts.append(f"success {_success(metrics, 'success/mean', 'success')}")
    if "reward/mean" in metrics:
        parts.append(f"reward {metrics['reward/mean']:.3f}")
    if "eval/success" in metrics:
        parts.append(f"held out {_success(metrics, 'eval/success', 'eval')}")
    parts += [f"{name} {text}" for name, text in _details(metrics) if text]
    if "time/total_s" in metrics:
        parts.append(f"{metrics['time/total_s']:.1f} s")
    faults = ", ".join(f"{kind} {count}" for kind, count in sorted(_faults(metrics).items()))
    if faults:
        parts.append(f"faults {faults}")
    return "  ".join(parts)


def _details(metrics: Metrics) -> list[tuple[str, str]]:
    """What stands behind the numbers, by heading; empty where nothing was measured."""
    return [
        ("tokens", _joined(metrics, {
            "tokens/sampled_per_s": lambda value: f"{_count(value)}/s sampled",
            "tokens/trained_per_s": lambda value: f"{_count(value)}/s trained",
        })),
        ("groups", _joined(metrics, {
            "group/informative": lambda value: f"{value:.0f} informative",
            "group/all_success": lambda value: f"{value:.0f} all solved",
            "group/all_failure": lambda value: f"{value:.0f} all failed",
            "group/dropped": lambda value: f"{value:.0f} dropped" if value else "",
        })),
        ("environments", ", ".join(
            f"{name.split('/')[1]} {100 * value:.0f} %"
            for name, value in metrics.items()
            if name.startswith("env/") and name.endswith("/success/mean")
        )),
        ("loss", _joined(metrics, {"loss/sft": lambda value: f"{value:.4f}"})),
        ("mismatch", _joined(metrics, {
            "mismatch/mean": lambda value: f"{value:.1e} mean",
            "mismatch/max": lambda value: f"{value:.1e} max",
        })),
    ]  # fmt: skip


def _joined(metrics: Metrics, writers: Mapping[str, Callable[[float], str]]) -> str:
    written = [write(metrics[name]) for name, write in writers.items() if name in metrics]
    return ", ".join(text for text in written if text)


def _success(metrics: Metrics, mean: str, prefix: str) -> str:
    return interval(
        {
            "mean": metrics[mean],
            "low": metrics[f"{prefix}/low"],
            "high": metrics[f"{prefix}/high"],
        }
    )


def _time_by_phase(metrics: Metrics) -> RenderableType:
    spent = {phase: metrics.get(f"time/{phase}_s", 0.0) for phase in PHASES}
    total = sum(spent.values()) or 1.0
    bar, legend = Text(), Text()
    end, drawn = 0.0, 0
    for phase, seconds in spent.items():
        end += seconds
        cells = round(_BAR_CELLS * end / total) - drawn
        drawn += cells
        bar.append("█" * cells, style=PHASES[phase])
        if seconds > 0:
            legend.append("■ ", style=PHASES[phase])
            legend.append(f"{phase} {100 * seconds / total:.0f} %  ")
    bar.append(f"  {metrics.get('time/total_s', total):.1f} s an update")
    return Group(bar, legend)


def _faults(metrics: Metrics) -> dict[str, int]:
    return {
        name.removeprefix("error/"): int(value)
        for name, value in metrics.items()
        if name.startswith("error/") and name != "error/total" and value
    }


def _count(value: float) -> str:
    return f"{value / 1000:.1f} k" if value >= 1000 else f"{value:.0f}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
