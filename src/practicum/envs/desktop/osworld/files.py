"""Reads OSWorld's and Windows Agent Arena's task JSON and refuses what cannot be done here.

A task is taken as it stands or not at all: a set-up verb that is not supported is named when
the file is read, before anything is played.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from practicum.core.errors import ConfigError
from practicum.core.task import Task
from practicum.envs.desktop.osworld.verbs import REFUSED, VERBS
from practicum.envs.desktop.spec import ENV_ID

OSWORLD = "osworld"
"""The value of a task's `format` key."""

KEYS = frozenset(
    """
    id snapshot instruction source config trajectory related_apps evaluator proxy fixed_ip
    possibility_of_env_change hint env_may_change
    """.split()
)
EVALUATOR_KEYS = frozenset({"func", "conj", "result", "expected", "options", "postconfig"})


def read_osworld_file(path: Path) -> Task:
    """Read one task file, or raise `ConfigError` with what stands against it."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: {error}") from error
    try:
        return osworld_task(content)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def osworld_task(content: Any) -> Task:
    """Make a task of an OSWorld or Windows Agent Arena task's content."""
    if not isinstance(content, dict) or not {"id", "instruction", "evaluator"} <= content.keys():
        raise ConfigError("an OSWorld task has id, instruction and evaluator")
    if strange := sorted(content.keys() - KEYS):
        raise ConfigError(f"unknown key {strange[0]!r} in an OSWorld task")
    evaluator = content["evaluator"]
    _check_evaluator(evaluator)
    _check_steps(content.get("config", []), "config")
    _check_steps(evaluator.get("postconfig", []), "postconfig")
    apps = "+".join(content.get("related_apps", ()))
    return Task.create(
        ENV_ID,
        content["instruction"],
        {"format": OSWORLD, "task": content},
        split="test",
        difficulty=apps or "osworld",
        family=f"osworld/{content['id']}",
    )


def _check_steps(steps: Any, where: str) -> None:
    if not isinstance(steps, list):
        raise ConfigError(f"{where} must be a list of steps")
    for number, step in enumerate(steps, start=1):
        if not isinstance(step, dict) or not {"type"} <= step.keys() <= {"type", "parameters"}:
            raise ConfigError(f"{where} {number}: a step has type and parameters")
        verb = step["type"]
        if verb in REFUSED:
            raise ConfigError(f"{where} {number}: {verb!r} is not supported: {REFUSED[verb]}")
        if verb not in VERBS:
            raise ConfigError(f"{where} {number}: there is no set-up verb {verb!r}")
        try:
            VERBS[verb].check(step.get("parameters") or {})
        except ValueError as error:
            raise ConfigError(f"{where} {number} ({verb}): {error}") from error


def _check_evaluator(evaluator: Any) -> None:
    if not isinstance(evaluator, dict) or "func" not in evaluator:
        raise ConfigError("evaluator must have func")
    if strange := sorted(evaluator.keys() - EVALUATOR_KEYS):
        raise ConfigError(f"unknown key {strange[0]!r} in evaluator")
    if evaluator.get("conj", "and") not in ("and", "or"):
        raise ConfigError(f"evaluator.conj is {evaluator['conj']!r} and neither 'and' nor 'or'")
    _check_lengths(evaluator)


def _check_lengths(evaluator: Mapping[str, Any]) -> None:
    if not isinstance(evaluator["func"], list):
        return
    for key in ("result", "expected", "options"):
        value = evaluator.get(key)
        if value and (not isinstance(value, list) or len(value) != len(evaluator["func"])):
            raise ConfigError(f"evaluator.{key} must be a list as long as evaluator.func")
