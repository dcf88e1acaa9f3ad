"""Builds the shipped panels: `python -m practicum.envs.text.babyai.freeze`.

Every level gives the same number of tasks. Seeds come from a hash of level and number, far
from the small seeds AgentGym trains on, and never the same for two levels, since levels of
one kind draw alike from one seed. A task is kept if the expert does it within the horizon,
so every task can be done; what that leaves out:

- two doors in order in `OpenDoorsOrderN4Debug`: minigrid judges the opening of the first
  door as an attempt at the second and fails the mission at once, so only its one-door
  missions are left;
- missions of the large levels that take more than the horizon in text actions: long walks
  in `GoToImpUnlock`, `KeyCorridorS6R3`, `OneRoomS20`, `Unlock`, `SynthSeq`, `BossLevel` and
  its like are cut off, short ones are kept.

Tasks with the same rooms, objects, mission and starting room are a family, wherever in that
room the player starts and however the layout is turned. The families of a level go to the
splits in the order in which they are met. The `-20` panels hold the tasks that the expert
does in 20 turns, AgentGym's horizon. A test rebuilds levels and compares them with the
shipped files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from practicum.core.canonical import stable_seed
from practicum.core.task import Task
from practicum.envs.panels import write_panels
from practicum.envs.text.babyai.engine import LEVELS
from practicum.envs.text.babyai.env import MAX_TURNS
from practicum.envs.text.babyai.expert import make_plan
from practicum.envs.text.babyai.tasks import ENV_ID, make_task

TASKS_PER_LEVEL = {"train": 30, "dev": 3, "test": 5}
SHORT_TURNS = 20
MAX_DRAWS = 3000
"""Draws per level, after which it has fewer tasks."""

_FIRST_SEED = 1_000_000
_SPLIT_OF_FAMILY = ("test", "dev", *["train"] * 8)


def build_panels() -> dict[str, list[Task]]:
    """Make every panel from minigrid alone."""
    built = [task for level in LEVELS for task in build_level(level)]
    panels = {split: [t for t, _ in built if t.split == split] for split in TASKS_PER_LEVEL}
    for split in TASKS_PER_LEVEL:
        panels[f"{split}-{SHORT_TURNS}"] = [
            t for t, turns in built if t.split == split and turns <= SHORT_TURNS
        ]
    return panels


def build_level(level: str) -> list[tuple[Task, int]]:
    """Make the tasks of one level, each with the turns the expert takes."""
    room = dict(TASKS_PER_LEVEL)
    split_of: dict[str, str] = {}
    layouts: set[str] = set()
    built = []
    for task in _draws(level):
        if not any(room.values()):
            break
        split = split_of.setdefault(
            task.family, _SPLIT_OF_FAMILY[len(split_of) % len(_SPLIT_OF_FAMILY)]
        )
        if room[split] == 0 or task.data["layout"] in layouts:
            continue
        turns = expert_turns(level, task.data["seed"])
        if turns is not None and turns <= MAX_TURNS:
            room[split] -= 1
            layouts.add(task.data["layout"])
            built.append((replace(task, split=split), turns))
    return built


def expert_turns(level: str, seed: int) -> int | None:
    """Count the turns the expert takes; None if it does not succeed."""
    plan = make_plan(level, seed, ())
    return len(plan.steps) if plan.is_whole else None


def _draws(level: str) -> Iterator[Task]:
    for number in range(MAX_DRAWS):
        seed = _FIRST_SEED + stable_seed(ENV_ID, level, number) % 10**9
        yield make_task(level, seed)


if __name__ == "__main__":
    write_panels(Path(__file__).parent / "panels", build_panels())
