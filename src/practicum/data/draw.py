"""Choosing the tasks to learn from: some of a panel, and variants of their prompts."""

from __future__ import annotations

from collections.abc import Sequence

from practicum.config.mixture import PartConfig
from practicum.core.canonical import stable_seed
from practicum.core.env import Environment, Varied
from practicum.core.errors import ConfigError, unknown_name
from practicum.core.task import Task


def training_tasks(environment: Environment, part: PartConfig, seed: int) -> list[Task]:
    """The tasks that a run trains on in one of its environments."""
    panels = [part.panel] if isinstance(part.panel, str) else part.panel
    tasks = [task for panel in panels for task in environment.panel(panel)]
    if part.difficulties is not None:
        tasks = of_difficulties(tasks, part.difficulties)
    return with_variants(environment, draw_tasks(tasks, part.max_tasks, seed), part.variants)


def of_difficulties(tasks: Sequence[Task], names: Sequence[str]) -> list[Task]:
    """The tasks of these difficulties; one that no task has is a `ConfigError`."""
    known = {task.difficulty for task in tasks}
    for name in names:
        if name not in known:
            raise unknown_name("difficulty", name, known)
    return [task for task in tasks if task.difficulty in names]


def draw_tasks(tasks: Sequence[Task], count: int | None, seed: int) -> list[Task]:
    """So many tasks, drawn by the seed; all of them in their own order without a count."""
    if count is None or count >= len(tasks):
        return list(tasks)
    return sorted(tasks, key=lambda task: stable_seed(seed, "draw", task.id))[:count]


def with_variants(environment: Environment, tasks: Sequence[Task], count: int) -> list[Task]:
    """The tasks and their further prompt variants, each different prompt once."""
    if count == 1:
        return list(tasks)
    if not isinstance(environment, Varied):
        raise ConfigError(f"{environment.id} has no prompt variants: leave variants at 1")
    varied = [environment.variant(task, number) for number in range(count) for task in tasks]
    # A goal with few recipes has few orders of them: a variant can be one that is there.
    return list({task.id: task for task in varied}.values())
