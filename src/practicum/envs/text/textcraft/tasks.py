"""TextCraft tasks: a goal, the crafting commands shown with it, and frozen panels of both.

Which other recipes are shown as distractors, and in which order, follows from a hash of
goal, variant and line: the same on every machine, in every process, at every time.
"""

from __future__ import annotations

import hashlib

from practicum.core.task import Task
from practicum.envs.panels import PanelFolder
from practicum.envs.text.textcraft.families import family
from practicum.envs.text.textcraft.world import World, shown

ENV_ID = "textcraft"
MAX_DISTRACTORS = 10

PANELS = PanelFolder("practicum.envs.text.textcraft")


def make_task(world: World, goal: str, *, variant: int = 0, split: str = "") -> Task:
    """Make the task of crafting a goal; a variant shows other distractors in another order."""

    def rank(line: str) -> bytes:
        return hashlib.sha256(f"{world.id}/{goal}/{variant}/{line}".encode()).digest()

    needed = {recipe.line: recipe for recipe in world.recipe_tree(goal)}
    nearby = {
        other.line
        for recipe in needed.values()
        for key, _ in recipe.inputs
        for other in world.uses.get(key, ())
    }
    distractors = sorted(nearby - needed.keys(), key=rank)[:MAX_DISTRACTORS]
    return Task.create(
        ENV_ID,
        prompt=f"Craft {shown(goal)}.",
        data={
            "world": world.id,
            "goal": goal,
            "commands": sorted([*needed, *distractors], key=rank),
        },
        split=split,
        difficulty=f"depth {world.depths[goal]}",
        family=f"{world.id}/{family(goal)}",
    )


def first_observation(task: Task) -> str:
    """What the player sees first."""
    commands = "\n".join(task.data["commands"])
    return f"Crafting commands:\n{commands}\n\nGoal: craft {shown(task.data['goal'])}."
