"""Builds the shipped panels: `python -m practicum.envs.text.alfworld.freeze`.

A family is a task type, an object kind and a target kind; each belongs to one split, drawn
in hash order within its task type. `train`, `dev` and `test` are set in rooms 1 to 24 of
each type, `test_unseen` asks for what `test` asks for in rooms 25 to 30, which no other
panel uses. A test rebuilds the panels and compares them with the shipped files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from practicum.core.canonical import stable_seed
from practicum.core.task import Task
from practicum.envs.panels import write_panels
from practicum.envs.text.alfworld.goals import WORDINGS, Goal
from practicum.envs.text.alfworld.scenes import (
    NUM_LAYOUTS,
    Draws,
    all_goals,
    fitting_layouts,
    furnish,
)
from practicum.envs.text.alfworld.tasks import family

SHARES: Mapping[str, float] = {"test": 0.22, "dev": 0.18}
"""Of each task type's families; the rest is `train`."""
SEEN = range(1, 25)
UNSEEN = range(25, NUM_LAYOUTS + 1)
PANELS: Mapping[str, tuple[str, range, int]] = {
    "train": ("train", SEEN, 66),
    "dev": ("dev", SEEN, 33),
    "test": ("test", SEEN, 33),
    "test_unseen": ("test", UNSEEN, 33),
}
"""Panel -> its split, its rooms, and how many tasks it has of each type."""


def build_panels() -> dict[str, list[Task]]:
    """Make every panel from the tables alone."""
    splits = assign_splits()
    return {
        name: [
            task
            for task_type in WORDINGS
            for task in _tasks(splits[task_type, split], rooms, num_tasks, split)
        ]
        for name, (split, rooms, num_tasks) in PANELS.items()
    }


def assign_splits() -> dict[tuple[str, str], list[Goal]]:
    """Deal the goals of every task type out to the splits."""
    goals = all_goals()
    dealt: dict[tuple[str, str], list[Goal]] = {}
    for task_type in WORDINGS:
        rest = [goal for goal in goals if goal.task_type == task_type]
        rest.sort(key=lambda goal: stable_seed("alfworld", "split", family(goal)))
        sizes = {split: round(share * len(rest)) for split, share in SHARES.items()}
        for split, size in sizes.items():
            dealt[task_type, split], rest = rest[:size], rest[size:]
        dealt[task_type, "train"] = rest
    return dealt


def _tasks(
    goals: Sequence[Goal], rooms: Sequence[int], num_tasks: int, split: str
) -> Iterator[Task]:
    """Go round the goals, each time in another room, until there are enough tasks."""
    fitting = {goal: fitting_layouts(goal, rooms) for goal in goals}
    possible = [goal for goal in goals if fitting[goal]]
    for number in range(num_tasks):
        goal = possible[number % len(possible)]
        turn = number // len(possible)
        places = Draws("alfworld", "rooms", family(goal), rooms[0]).shuffled(fitting[goal])
        room, index = places[turn % len(places)]
        yield furnish(goal, room, index, seed=turn, split=split)


if __name__ == "__main__":
    write_panels(Path(__file__).parent / "panels", build_panels())
