"""Tasks in invented worlds, without end: what can be trained on beside the real recipes.

`invented~1`, `invented~2`, … are panels of worlds that share no name and no recipe with
TextCraft's, nor with each other's. To learn from them is to learn how to craft by what is
listed; nothing in them can be known by heart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from random import Random

from practicum.core.errors import ConfigError
from practicum.core.task import Panel, Task
from practicum.envs.text.textcraft.expert import make_plan, read_puzzle
from practicum.envs.text.textcraft.invented import check_apart, make_world
from practicum.envs.text.textcraft.tasks import first_observation, make_task
from practicum.envs.text.textcraft.world import World, to_key

WORLDS_PER_PANEL = 100
FIRST_SEED = 1_000_000
"""Of the panels' worlds; those below are the base model's."""
MAX_COMMANDS = 30
MAX_EXPERT_TURNS = 18
GOALS_PER_WORLD = 6
DEPTH_WEIGHTS = (0.2, 0.5, 0.25, 0.05)
"""How often a goal of depth 1, 2, … is drawn, where the world has any."""


@lru_cache(maxsize=64)
def invented_panel(number: str) -> Panel:
    """The tasks of a hundred worlds; equal for equal numbers, on every machine."""
    if not re.fullmatch("[1-9][0-9]{0,8}", number):
        raise ConfigError(
            "invented panels have numbers from 1 on, of up to nine digits, as in invented~1"
        )
    first = FIRST_SEED + (int(number) - 1) * WORLDS_PER_PANEL
    found = [
        replace(task, split="train")
        for seed in range(first, first + WORLDS_PER_PANEL)
        for task, _ in make_tasks(seed)
    ]
    return Panel(f"invented~{number}", tuple(found))


def make_tasks(seed: int) -> Iterator[tuple[Task, World]]:
    """Draw the tasks of one world, without those that are too long or misleading."""
    world = make_world(seed)
    check_apart(world)
    rng = Random(f"tasks/{seed}")
    for goal in _draw_goals(world, rng):
        task = make_task(world, goal, variant=rng.randrange(1000))
        if len(task.data["commands"]) > MAX_COMMANDS or misleads(task, world):
            continue
        if _expert_turns(task) <= MAX_EXPERT_TURNS:
            yield task, world


def misleads(task: Task, world: World) -> bool:
    """Whether names make something seem a kind that is none, or of a kind that it is not of."""
    puzzle = read_puzzle(first_observation(task))
    asked = {key for made in puzzle.recipes.values() for r in made for key, _ in r.inputs}
    return any(
        world.generic_of.get(to_key(member)) != to_key(key)
        for key in asked
        for member in puzzle.members(key)
    )


def _draw_goals(world: World, rng: Random) -> Iterator[str]:
    """Different goals; the depth is drawn first, as deep goals are few in a world."""
    by_depth: dict[int, list[str]] = {}
    for goal in world.goals:
        if world.depths[goal] <= len(DEPTH_WEIGHTS):
            by_depth.setdefault(world.depths[goal], []).append(goal)
    weights = {depth: DEPTH_WEIGHTS[depth - 1] for depth in by_depth}
    drawn = rng.choices(list(weights), list(weights.values()), k=GOALS_PER_WORLD)
    yield from dict.fromkeys(rng.choice(by_depth[depth]) for depth in drawn)


def _expert_turns(task: Task) -> int:
    plan = make_plan(read_puzzle(first_observation(task)), {}, frozenset())
    return len(plan.fetch) + len(plan.crafts)
