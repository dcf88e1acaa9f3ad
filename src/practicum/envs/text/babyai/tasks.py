"""BabyAI tasks: a level and a seed, with the mission and a hash of the layout they stand for.

The level is drawn by minigrid from the seed. The hash is part of the task and is checked
when an episode starts, so the same task is the same layout or an error.
"""

from __future__ import annotations

from practicum.core.errors import EnvError
from practicum.core.task import Task
from practicum.envs.panels import PanelFolder
from practicum.envs.text.babyai import engine

ENV_ID = "babyai"
HASH_DIGITS = 16

PANELS = PanelFolder("practicum.envs.text.babyai")


def make_task(level: str, seed: int, *, split: str = "") -> Task:
    """Make the task of a level drawn from a seed."""
    world = engine.open_level(level, seed)
    return Task.create(
        ENV_ID,
        prompt=str(world.mission),
        data={"level": level, "seed": seed, "layout": engine.fingerprint(world)[:HASH_DIGITS]},
        split=split,
        difficulty=level,
        family=f"{level}/{engine.family(world)[:HASH_DIGITS]}",
    )


def make_agentgym_task(data_idx: int) -> Task:
    """Make the task that AgentGym's server draws for an index: level and seed are the same.

    The layout is that of AgentGym only if its minigrid draws levels as ours does.
    """
    return make_task(engine.LEVELS[data_idx % len(engine.LEVELS)], data_idx // len(engine.LEVELS))


def check_layout(task: Task, world: engine.World) -> None:
    """Raise if a level is not the one the task was frozen with."""
    drawn = engine.fingerprint(world)[:HASH_DIGITS]
    if str(world.mission) != task.prompt or drawn != task.data["layout"]:
        raise EnvError(
            f"{task.id} was frozen with layout {task.data['layout']} ({task.prompt!r}), but "
            f"minigrid drew {drawn} ({str(world.mission)!r}) from the same seed: this release "
            f"of minigrid or numpy draws levels differently; install a tested one",
            kind="task-mismatch",
        )
