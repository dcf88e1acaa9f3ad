"""Builds the shipped panels: `python -m practicum.envs.text.textcraft.freeze`.

The split keeps recipe families together, and it is closed: whatever can be crafted on the
way to a training goal is itself a training goal or no goal at all, so no demonstration of
a training goal ever crafts a held-out one. Families are drawn in hash order until each
depth has its share. A test rebuilds the panels and compares them with the shipped files.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from practicum.core.task import Task
from practicum.envs.panels import write_panels
from practicum.envs.text.textcraft.families import family
from practicum.envs.text.textcraft.tasks import make_task
from practicum.envs.text.textcraft.versions import load_world, rename
from practicum.envs.text.textcraft.world import DEFAULT_WORLD, World

SHARES = {"test": 0.26, "dev": 0.15}
RENAMED_SEED = "1"
DEEP_WORLD = "minecraft-1.19+deep"
DEEP_MIN_DEPTH = 5


def build_panels() -> dict[str, list[Task]]:
    """Make every panel from the recipe data alone."""
    world = load_world(DEFAULT_WORLD)
    splits = assign_splits(world)
    tasks = {goal: make_task(world, goal, split=splits[goal]) for goal in world.goals}
    # AgentGym numbers its tasks by depth, then by recipe file; its data_idx is a row here.
    by_depth = sorted(world.goals, key=lambda goal: world.depths[goal])
    ordered = [tasks[goal] for goal in sorted(tasks)]
    test_goals = [goal for goal in sorted(tasks) if splits[goal] == "test"]
    return {
        **{s: [t for t in ordered if t.split == s] for s in ("train", "dev", "test")},
        "all": ordered,
        "legacy": [tasks[goal] for goal in by_depth],
        "renamed": [rename(tasks[goal], RENAMED_SEED) for goal in test_goals],
        "deep": list(_deep()),
    }


def assign_splits(world: World) -> dict[str, str]:
    """Give every goal a split, whole families at a time."""
    members: dict[str, list[str]] = {}
    for goal in world.goals:
        members.setdefault(family(goal), []).append(goal)
    dependents = _dependents(world)
    order = sorted(members, key=lambda name: hashlib.sha256(name.encode()).digest())
    split_of: dict[str, str] = {}
    for split, share in SHARES.items():
        room = {d: round(share * n) for d, n in Counter(world.depths.values()).items()}
        for name in order:
            wanted = [f for f in _with_dependents(name, dependents) if f not in split_of]
            cost = Counter(world.depths[goal] for f in wanted for goal in members[f])
            if name not in split_of and all(room[d] >= n for d, n in cost.items()):
                split_of |= dict.fromkeys(wanted, split)
                room = {d: room[d] - cost[d] for d in room}
    return {goal: split_of.get(family(goal), "train") for goal in world.goals}


def _dependents(world: World) -> Mapping[str, set[str]]:
    """Family -> the families whose goals may craft one of its goals on the way."""
    found: dict[str, set[str]] = {}
    for goal in world.goals:
        for recipe in world.recipe_tree(goal):
            found.setdefault(family(recipe.output), set()).add(family(goal))
    return found


def _with_dependents(name: str, dependents: Mapping[str, set[str]]) -> list[str]:
    closed: dict[str, None] = {}
    waiting = [name]
    while waiting:
        current = waiting.pop()
        if current not in closed:
            closed[current] = None
            waiting.extend(sorted(dependents.get(current, ())))
    return list(closed)


def _deep() -> Iterator[Task]:
    world = load_world(DEEP_WORLD)
    for goal in sorted(world.goals):
        if world.depths[goal] >= DEEP_MIN_DEPTH:
            yield make_task(world, goal, split="test")


if __name__ == "__main__":
    write_panels(Path(__file__).parent / "panels", build_panels())
