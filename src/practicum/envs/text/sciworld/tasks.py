"""ScienceWorld tasks: a task of the engine, one of its variations, and frozen panels of both.

The splits are the engine's own: it gives the first half of a task's variations to training,
a quarter each to dev and test. Two variations whose goal is worded the same and whose gold
path is the same are one family.
"""

from __future__ import annotations

from collections.abc import Sequence

from practicum.core.canonical import content_hash
from practicum.core.task import Task
from practicum.envs.panels import PanelFolder

ENV_ID = "sciworld"
ENGINE = "scienceworld-1.2.3"
INSTALL = "pip install 'scienceworld>=1.2.3,<1.3'"
MAX_TURNS = 100
"""Panels hold only tasks whose gold path is no longer."""

PANELS = PanelFolder("practicum.envs.text.sciworld")

_FAMILY_HEX_DIGITS = 8


def make_task(
    name: str,
    variation: int,
    *,
    description: str,
    gold: Sequence[str],
    simplifications: str = "",
    split: str = "",
) -> Task:
    """Make the task of one variation. The gold path describes it and stays out of it."""
    family = content_hash([name, description, list(gold)])[:_FAMILY_HEX_DIGITS]
    return Task.create(
        ENV_ID,
        prompt=description,
        data={
            "engine": ENGINE,
            "task": name,
            "variation": variation,
            "simplifications": simplifications,
        },
        split=split,
        difficulty=difficulty(len(gold)),
        family=f"{name}/{family}",
    )


def difficulty(num_gold_actions: int) -> str:
    """Name the stratum of a gold path's length, by the bounds of ScienceWorld's authors."""
    if num_gold_actions < 20:
        return "short"
    return "medium" if num_gold_actions <= 50 else "long"
