"""The tasks a server can be asked for: by id, by content, or by AgentGym's index."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Protocol, runtime_checkable

from practicum.core.env import Environment
from practicum.core.errors import ConfigError, EnvError
from practicum.core.task import Task
from practicum.envs.http import wire

INDEX_PANELS = ("legacy", "all")
"""Where an index points, the first that there is; else train, dev and test in a row. An
environment that is `Numbered` says itself."""
SPLITS = ("train", "dev", "test")


@runtime_checkable
class Numbered(Protocol):
    """An environment whose tasks have had numbers since before it had panels."""

    def agentgym_task(self, data_idx: int) -> Task:
        """Make the task that AgentGym means by an index."""
        ...


class TaskBook:
    """The tasks of one environment."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    @cached_property
    def by_id(self) -> dict[str, Task]:
        """Every task of every panel."""
        names = self._environment.panel_names()
        return {task.id: task for name in names for task in self._environment.panel(name)}

    @cached_property
    def by_index(self) -> tuple[Task, ...]:
        """The tasks in the order of their indices."""
        environment = self._environment
        names = environment.panel_names()
        chosen = next((name for name in INDEX_PANELS if name in names), None)
        if chosen is not None:
            return environment.panel(chosen).tasks
        return tuple(task for name in SPLITS for task in environment.panel(name))

    def describe(self) -> dict[str, Any]:
        """Panels with their sizes and hashes."""
        panels = {name: self._environment.panel(name) for name in self._environment.panel_names()}
        return {name: {"tasks": len(panel), "hash": panel.hash} for name, panel in panels.items()}

    def find(self, given: Any) -> Task:
        """The task of an id, or of a content that hashes to its id."""
        if isinstance(given, str):
            if given in self.by_id:
                return self.by_id[given]
            raise EnvError(
                f"no panel of {self._environment.id} holds {given}; send its content",
                kind="unknown-task",
            )
        try:
            task = wire.read_task(given)
        except ConfigError as error:
            raise EnvError(str(error), kind="wrong-task") from error
        if task.env_id != self._environment.id:
            raise EnvError(
                f"{task.id} is of {task.env_id} and not of {self._environment.id}",
                kind="wrong-task",
            )
        return task

    def at(self, index: int, *, wraps: bool) -> Task:
        """The task at an index; past the end AgentGym's TextCraft begins anew."""
        if isinstance(self._environment, Numbered) and index >= 0:
            return self._environment.agentgym_task(index)
        tasks = self.by_index
        if wraps:
            index %= len(tasks)
        if not 0 <= index < len(tasks):
            raise EnvError(
                f"index {index} is out of range: {self._environment.id} has {len(tasks)} tasks",
                kind="bad-request",
            )
        return tasks[index]
