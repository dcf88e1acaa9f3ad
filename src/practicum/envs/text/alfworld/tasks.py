"""ALFWorld tasks: a goal in words and the whole house it is set in, and frozen panels.

`data` holds the house as it stands: for every kind of receptacle the contents of each one
in order of number, which receptacles stand open, and the goal. Playing a task draws nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from practicum.core.task import Task
from practicum.envs.panels import PanelFolder
from practicum.envs.text.alfworld.goals import Goal

ENV_ID = "alfworld"

PANELS = PanelFolder("practicum.envs.text.alfworld")

Contents = Mapping[str, Sequence[Sequence[str]]]
"""Receptacle kind -> what is in number 1, in number 2, …"""


def make_task(
    goal: Goal, contents: Contents, opened: Sequence[str], *, wording: int = 0, split: str = ""
) -> Task:
    """Make the task of reaching a goal in a house."""
    return Task.create(
        ENV_ID,
        prompt=f"{goal.words(wording)}.",
        data={
            "goal": [goal.task_type, goal.object, goal.target],
            "receptacles": {word: [list(c) for c in filled] for word, filled in contents.items()},
            "open": sorted(opened),
        },
        split=split,
        difficulty=goal.task_type,
        family=family(goal),
    )


def goal_of(task: Task) -> Goal:
    """The goal of a task."""
    task_type, object_kind, target = task.data["goal"]
    return Goal(task_type, object_kind, target)


def family(goal: Goal) -> str:
    """Tasks that ask for the same thing, in whatever house and words."""
    return f"{goal.task_type}/{goal.object}/{goal.target}"
