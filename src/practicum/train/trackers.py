"""Metrics for other people's dashboards: TensorBoard and Weights & Biases.

`metrics.jsonl` in the run folder is the record and is always written; a tracker gets a copy
of each row. Both keep their files inside the run folder. W&B is set up by its own variables
(`WANDB_API_KEY`, `WANDB_MODE=offline`, …).
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from practicum.core.errors import ConfigError, unknown_name

INSTALL = "pip install 'practicum[trackers]'"
PROJECT = "practicum"
"""The W&B project runs go to unless `WANDB_PROJECT` names another."""


@dataclass(frozen=True, slots=True)
class TrackedRun:
    """What a tracker is told about the run before its first number."""

    path: Path
    """The run folder; its name is the name of the run."""
    config: Mapping[str, Any]
    first_update: int = 0
    """Where a resumed run goes on: what was logged from there on is played again."""


class Tracker(Protocol):
    """A dashboard that takes the metrics of each update."""

    place: str
    """Where a person finds it: a folder or an address."""

    def log(self, update: int, metrics: Mapping[str, float]) -> None:
        """Take the metrics of one update."""
        ...

    def close(self) -> None:
        """Write what is left; afterwards nothing can be logged."""
        ...


class Trackers:
    """The trackers of a run as one: called with the metrics of an update, `update` among them."""

    def __init__(self, trackers: Sequence[Tracker]) -> None:
        self._trackers = trackers
        self.places = tuple(tracker.place for tracker in trackers)

    def __call__(self, metrics: Mapping[str, float]) -> None:
        """Hand the metrics to each."""
        for tracker in self._trackers:
            tracker.log(int(metrics["update"]), metrics)


@contextmanager
def tracking(names: Sequence[str], run: TrackedRun) -> Iterator[Trackers]:
    """Open the named trackers, and close them at the end, whatever happens."""
    for name in names:
        if name not in TRACKERS:
            raise unknown_name("tracker", name, TRACKERS)
    with ExitStack() as stack:
        trackers: list[Tracker] = []
        for name in dict.fromkeys(names):
            tracker = TRACKERS[name](run)
            stack.callback(tracker.close)
            trackers.append(tracker)
        yield Trackers(trackers)


class TensorBoardTracker:
    """Event files in the run's `tensorboard/`, written without TensorBoard or torch."""

    def __init__(self, run: TrackedRun) -> None:
        try:
            from tensorboardX import SummaryWriter
        except ImportError as error:
            raise ConfigError(f"trackers: tensorboard needs tensorboardX: {INSTALL}") from error
        self.place = str(run.path / "tensorboard")
        self._writer = SummaryWriter(self.place, purge_step=run.first_update or None)

    def log(self, update: int, metrics: Mapping[str, float]) -> None:
        """Write one scalar per metric, and let the dashboard see it at once."""
        for name, value in metrics.items():
            if name != "update":
                self._writer.add_scalar(name, value, update)
        self._writer.flush()

    def close(self) -> None:
        """Close the event file."""
        self._writer.close()


class WandbTracker:
    """A W&B run; resuming the run folder goes on with the same one."""

    def __init__(self, run: TrackedRun) -> None:
        try:
            import wandb
        except ImportError as error:
            raise ConfigError(f"trackers: wandb needs wandb: {INSTALL}") from error
        # Its lines would land in the middle of the progress display.
        settings = wandb.Settings(console="off", silent=True)
        try:
            self._run = wandb.init(
                project=os.environ.get("WANDB_PROJECT", PROJECT),
                name=run.path.name,
                id=_wandb_id(run.path),
                dir=run.path,
                config=dict(run.config),
                resume="allow",
                reinit="create_new",
                settings=settings,
            )
        except (wandb.Error, OSError) as error:
            raise ConfigError(
                f"W&B did not start ({error}): run `wandb login`, set WANDB_MODE=offline, "
                "or take wandb out of trackers"
            ) from error
        # A resumed run repeats updates; W&B's own step cannot go back, a column of ours can.
        self._run.define_metric("*", step_metric="update")
        folder = str(run.path / "wandb")
        self.place = folder if self._run.offline else self._run.url or folder

    def log(self, update: int, metrics: Mapping[str, float]) -> None:
        """Send one row."""
        self._run.log({**metrics, "update": update})

    def close(self) -> None:
        """Send what is left and end the run."""
        self._run.finish()


def _wandb_id(folder: Path) -> str:
    """The id this run folder has at W&B; made once and kept beside W&B's own files."""
    path = folder / "wandb" / "practicum-run-id"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        path.write_text(secrets.token_hex(4), encoding="utf-8")
    return path.read_text(encoding="utf-8")


TRACKERS: Mapping[str, Callable[[TrackedRun], Tracker]] = {
    "tensorboard": TensorBoardTracker,
    "wandb": WandbTracker,
}
