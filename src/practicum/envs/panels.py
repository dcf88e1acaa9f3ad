"""Panels as files: every task once, by content, and for each panel the ids it holds.

`tasks.jsonl` has one task a line; `panels.json` has, per panel, the ids in order and their
hash. Loading checks every task against its id and every panel against its hash, so an
edited or half-copied file is an error and never another benchmark.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from practicum.core.canonical import canonical_json
from practicum.core.errors import ConfigError, unknown_name
from practicum.core.task import Panel, Task


class PanelFolder:
    """The panels that an environment's package ships in its `panels` folder."""

    def __init__(self, package: str) -> None:
        self._package = package
        self._loaded: dict[str, Panel] = {}

    @property
    def _folder(self) -> Traversable:
        return files(self._package) / "panels"

    @cached_property
    def _index(self) -> Mapping[str, Mapping[str, object]]:
        index: Mapping[str, Mapping[str, object]] = json.loads(
            (self._folder / "panels.json").read_text(encoding="utf-8")
        )
        return index

    @cached_property
    def _tasks(self) -> Mapping[str, Task]:
        lines = (self._folder / "tasks.jsonl").read_text(encoding="utf-8").splitlines()
        tasks = [Task(**json.loads(line)) for line in lines]
        return {task.id: task for task in tasks}

    def names(self) -> Sequence[str]:
        """Panel names in the order they were written."""
        return tuple(self._index)

    def load(self, name: str) -> Panel:
        """Load a panel and check it against its hashes."""
        if name not in self._index:
            raise unknown_name("panel", name, self._index)
        if name not in self._loaded:
            ids = self._index[name]["tasks"]
            assert isinstance(ids, list)
            panel = Panel(name, tuple(self._tasks[task_id] for task_id in ids))
            for task in panel:
                task.verify()
            if panel.hash != self._index[name]["hash"]:
                raise ConfigError(
                    f"panel {name!r} of {self._package} hashes to {panel.hash[:12]}… and not to "
                    f"{str(self._index[name]['hash'])[:12]}…: its files were edited; reinstall"
                )
            self._loaded[name] = panel
        return self._loaded[name]


def write_panels(folder: Path, panels: Mapping[str, Sequence[Task]]) -> None:
    """Write panel files; equal panels give equal bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in panel_texts(panels).items():
        (folder / name).write_text(text, encoding="utf-8")


def panel_texts(panels: Mapping[str, Sequence[Task]]) -> dict[str, str]:
    """The files of `write_panels`, by name."""
    tasks = {task.id: task for panel in panels.values() for task in panel}
    index = {
        name: {"hash": Panel(name, tuple(panel)).hash, "tasks": [task.id for task in panel]}
        for name, panel in panels.items()
    }
    return {
        "tasks.jsonl": "".join(canonical_json(asdict(tasks[i])) + "\n" for i in sorted(tasks)),
        "panels.json": json.dumps(index, indent=0) + "\n",
    }
