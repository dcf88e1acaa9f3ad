"""Whether a policy is judged on what it was trained on."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from practicum.core.env import Environment
from practicum.core.errors import ConfigError
from practicum.core.task import Panel, Task

MANIFEST = "training.json"
"""Beside a checkpoint: `{"name": …, "task_ids": […], "families": […]}`."""


def check_overlap(
    environment: Environment, panel: Panel, policy: str, trained_on: str | None
) -> dict[str, Any]:
    """Count the panel's tasks that are training tasks, by content and by family.

    What a policy was trained on is, in this order: what the user says, what its checkpoint
    says, and otherwise taken to be the environment's training panel.
    """
    name, task_ids, families = _training_set(environment, policy, trained_on)
    return {
        "checked_against": name,
        "tasks": sum(task.id in task_ids for task in panel),
        "families": len({task.family for task in panel} & families),
    }


def _training_set(
    environment: Environment, policy: str, trained_on: str | None
) -> tuple[str, set[str], set[str]]:
    if trained_on is not None:
        try:
            panel = environment.panel(trained_on)  # more than it lists: `train~w7` in TextCraft
        except ConfigError:
            return _from_manifest(Path(trained_on))
        return _from_tasks(f"{environment.id}/{trained_on}", panel)
    _, _, location = policy.partition(":")
    if location and (manifest := Path(location) / MANIFEST).is_file():
        return _from_manifest(manifest)
    return _from_tasks(f"{environment.id}/train", environment.panel("train"))


def _from_tasks(name: str, tasks: Iterable[Task]) -> tuple[str, set[str], set[str]]:
    listed = list(tasks)
    return name, {task.id for task in listed}, {task.family for task in listed}


def _from_manifest(path: Path) -> tuple[str, set[str], set[str]]:
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        return str(manifest["name"]), set(manifest["task_ids"]), set(manifest["families"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"cannot read the training tasks from {path}: {error}; "
            "give a panel name or a file with name, task_ids and families"
        ) from error
