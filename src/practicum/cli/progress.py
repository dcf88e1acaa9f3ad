"""A progress bar that shows what is known so far, with its interval."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from types import TracebackType

from rich.logging import RichHandler
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from practicum.cli.output import console, interval
from practicum.core.episode import Episode
from practicum.evaluate.report import latest, tally_tasks
from practicum.evaluate.statistics import estimate_success
from practicum.store.run import Run

_REFRESH_S = 0.25


class EpisodeProgress:
    """Counts episodes on standard error; also the place where warnings show up."""

    def __init__(self, total: int, runs: Sequence[Run], *, is_shown: bool) -> None:
        self._console = console(stderr=True)
        self._tasks = [task for run in runs for task in run.tasks()]
        self._episodes = {
            key: episode
            for run in runs
            for key, episode in latest(run.episodes()).items()
            if not episode.is_broken
        }
        self._num_broken = 0
        self._next_refresh = 0.0
        self._progress = Progress(
            TextColumn("playing"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TextColumn("{task.fields[known]}"),
            TimeRemainingColumn(),
            console=self._console,
            disable=not is_shown,
            transient=True,
        )
        self._bar = self._progress.add_task(
            "", total=total, completed=len(self._episodes), known=""
        )
        self._handler = RichHandler(console=self._console, show_time=False, show_path=False)

    def __enter__(self) -> EpisodeProgress:
        logging.getLogger("practicum").addHandler(self._handler)
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._refresh()
        self._progress.stop()
        logging.getLogger("practicum").removeHandler(self._handler)

    def add(self, episode: Episode) -> None:
        """Count one more episode."""
        self._episodes[episode.task_id, episode.sample] = episode
        self._num_broken += episode.is_broken
        self._progress.advance(self._bar)
        if time.monotonic() >= self._next_refresh:
            self._refresh()

    def say(self, message: str) -> None:
        """Print a line above the bar."""
        self._console.print(message, markup=False)

    def _refresh(self) -> None:
        self._next_refresh = time.monotonic() + _REFRESH_S
        tallies = tally_tasks(self._tasks, self._episodes.values())
        estimate = estimate_success(list(tallies.values()))
        known = f"success {interval(estimate.to_json())}" if estimate else ""
        broken = f"  broken {self._num_broken}" if self._num_broken else ""
        self._progress.update(self._bar, known=known + broken)
