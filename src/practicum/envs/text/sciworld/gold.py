"""Gold paths of the panel tasks, apart from the tasks so that no policy can be shown one.

`panels/gold.jsonl` has every distinct action on its first line and then, per task id, the
actions of its path by number. Only the expert reads it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

from practicum.core.canonical import canonical_json
from practicum.core.errors import ConfigError

FILE_NAME = "gold.jsonl"


def gold_path(task_id: str) -> tuple[str, ...]:
    """The engine's own solution of a panel task."""
    try:
        return _paths()[task_id]
    except KeyError:
        raise ConfigError(
            f"there is no gold path for {task_id}: the expert plays the tasks of the panels"
        ) from None


def gold_text(paths: Mapping[str, Sequence[str]]) -> str:
    """Write paths as the file's text; equal paths give equal text."""
    actions = sorted({action for path in paths.values() for action in path})
    number = {action: i for i, action in enumerate(actions)}
    rows = [[task_id, [number[a] for a in paths[task_id]]] for task_id in sorted(paths)]
    return "".join(canonical_json(line) + "\n" for line in [actions, *rows])


@cache
def _paths() -> Mapping[str, tuple[str, ...]]:
    file = files("practicum.envs.text.sciworld") / "panels" / FILE_NAME
    first, *rest = file.read_text(encoding="utf-8").splitlines()
    actions = json.loads(first)
    rows = map(json.loads, rest)
    return {task_id: tuple(actions[i] for i in numbers) for task_id, numbers in rows}
