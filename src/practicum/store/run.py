"""A run is a folder.

```
config.json      what was asked for, and what it resolved to
tasks.jsonl      the tasks, whole
episodes.jsonl   one line an episode, in the order they ended
metrics.jsonl    one line a measurement, flat: `{"update": 3, "reward/mean": 0.5}`
report.json      the result; derived from the rest
images/          pictures by content hash
```

The folder appears complete with its config or not at all, and one process at a time may
write to it. Episodes and measurements can be written side by side through one `Run`.
"""

from __future__ import annotations

import fcntl
import math
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from practicum.core.episode import Episode
from practicum.core.errors import ConfigError, StoreError
from practicum.core.message import Image
from practicum.core.task import Task
from practicum.store.codec import episode_from_json, episode_to_json
from practicum.store.files import LineFormat, read_json, to_text, write_atomically

RUN_VERSION = 1

EPISODES = LineFormat("practicum-episodes", 1, upgrades={})
METRICS = LineFormat("practicum-metrics", 1, upgrades={})
TASKS = LineFormat("practicum-tasks", 1, upgrades={})

_METRIC_NAME = re.compile(r"[\w.-]+(/[\w.-]+)*")


class Run:
    """One run folder."""

    def __init__(self, path: Path, header: Mapping[str, Any]) -> None:
        self.path = path
        self._header = header
        self._lock_file: IO[str] | None = None
        self._num_writers = 0

    @classmethod
    def create(cls, path: Path, kind: str, config: Mapping[str, Any], tasks: Iterable[Task]) -> Run:
        """Make a new run folder; an existing one that is not empty is left alone."""
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise ConfigError(f"{path} exists already: choose another --out, or --resume {path}")
        header = {"format": "practicum-run", "version": RUN_VERSION, "kind": kind, **config}
        draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
        try:
            draft.mkdir(parents=True)
        except OSError as error:
            raise ConfigError(f"cannot make a run folder at {path}: {error.strerror}") from error
        try:
            writer = TASKS.append_to(draft / "tasks.jsonl")
            for task in tasks:
                writer.append(asdict(task))
            writer.close()
            write_atomically(draft / "config.json", to_text(header))
            draft.rename(path)  # replaces an empty folder, refuses any other
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
        return cls(path, header)

    @classmethod
    def open(cls, path: Path) -> Run:
        """Open an existing run folder."""
        if not path.is_dir():
            raise StoreError(f"{path} is not a run folder: there is no such folder")
        if not (path / "config.json").exists():
            raise StoreError(f"{path} is not a run folder: it has no config.json")
        header = read_json(path / "config.json")
        if not isinstance(header, dict) or header.get("format") != "practicum-run":
            raise StoreError(f"{path / 'config.json'} is not that of a practicum run")
        if not isinstance(header.get("version"), int) or header["version"] > RUN_VERSION:
            raise StoreError(
                f"{path} has run format version {header.get('version')} and this practicum reads "
                f"up to {RUN_VERSION}: pip install --upgrade practicum"
            )
        return cls(path, header)

    @property
    def kind(self) -> str:
        """What made the run: `eval`, `sft`, `rl`."""
        return str(self._header["kind"])

    @property
    def header(self) -> Mapping[str, Any]:
        """All of `config.json`."""
        return self._header

    def tasks(self) -> list[Task]:
        """The tasks of the run, each checked against its id."""
        tasks = [Task(**row) for row in TASKS.read(self.path / "tasks.jsonl")]
        for task in tasks:
            task.verify()
        return tasks

    def episodes(self) -> Iterator[Episode]:
        """Every episode on record, in the order they ended."""
        for row in EPISODES.read(self.path / "episodes.jsonl"):
            yield episode_from_json(row, self._get_image)

    def metrics(self) -> Iterator[dict[str, Any]]:
        """Every measurement on record; there can be two of one update."""
        return METRICS.read(self.path / "metrics.jsonl")

    def report(self) -> dict[str, Any]:
        """The report; an unfinished run has none."""
        path = self.path / "report.json"
        if not path.exists():
            raise StoreError(f"{self.path} has no report: it did not finish; resume it")
        report: dict[str, Any] = read_json(path)
        return report

    def write_report(self, report: Mapping[str, Any]) -> None:
        """Write or replace the report."""
        write_atomically(self.path / "report.json", to_text(report))

    @contextmanager
    def recording(self) -> Iterator[Callable[[Episode], None]]:
        """Append episodes; a second process that tries to is refused."""
        with self.exclusive():
            writer = EPISODES.append_to(self.path / "episodes.jsonl")
            try:
                yield lambda episode: writer.append(episode_to_json(episode, self._put_image))
            finally:
                writer.close()

    @contextmanager
    def measuring(self) -> Iterator[Callable[[Mapping[str, float]], None]]:
        """Append measurements, each with its `update`; what is no number is refused."""
        with self.exclusive():
            writer = METRICS.append_to(self.path / "metrics.jsonl")
            try:
                yield lambda metrics: writer.append(_checked(metrics))
            finally:
                writer.close()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Be the only process that writes here; another one is refused. Can be nested."""
        if self._lock_file is None:
            self._lock_file = _locked(self.path / ".lock")
        self._num_writers += 1
        try:
            yield
        finally:
            self._num_writers -= 1
            if self._num_writers == 0:
                self._lock_file.close()
                self._lock_file = None

    def _image_path(self, digest: str, media_type: str) -> Path:
        return self.path / "images" / f"{digest}.{media_type.rpartition('/')[2]}"

    def _put_image(self, image: Image) -> None:
        path = self._image_path(image.hash, image.media_type)
        if path.exists():
            return
        path.parent.mkdir(exist_ok=True)
        draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
        draft.write_bytes(image.data)
        draft.replace(path)

    def _get_image(self, digest: str, media_type: str) -> Image:
        path = self._image_path(digest, media_type)
        try:
            image = Image(path.read_bytes(), media_type)
        except FileNotFoundError:
            raise StoreError(f"{path} is missing: the run folder was copied in part") from None
        if image.hash != digest:
            raise StoreError(f"{path} is not the picture its name says: it was changed")
        return image


def _locked(path: Path) -> IO[str]:
    file = path.open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise StoreError(f"another process is writing to {path.parent}") from error
    return file


def _checked(metrics: Mapping[str, object]) -> Mapping[str, object]:
    update = metrics.get("update")
    if type(update) is not int:
        raise StoreError(f"a measurement needs the number of its update, and got {update!r}")
    for name, value in metrics.items():
        if not _METRIC_NAME.fullmatch(name):
            raise StoreError(f"{name!r} is no metric name: write a path such as reward/mean")
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise StoreError(f"{name} of update {update} is {value!r}: a metric is a number")
        if not math.isfinite(value):
            raise StoreError(
                f"{name} of update {update} is {value}: leave out what was not measured, and "
                "stop a training whose numbers have diverged"
            )
    return metrics
