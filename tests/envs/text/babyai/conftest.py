"""A room furnished by hand, for cases worked out by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import pytest
from support import require

from practicum.envs.text.babyai.engine import INSTALL
from practicum.envs.text.babyai.world import Game

Furnish = Callable[..., Game]

START = (3, 6)
"""In the room of eight by eight: five free cells ahead, two to the left, three to the right."""


@pytest.fixture(autouse=True)
def minigrid_is_installed() -> None:
    require("minigrid", INSTALL)


@pytest.fixture
def furnish() -> Furnish:
    """Make a game in one room: things by (steps right, steps forward), and a mission."""

    def build(things: Mapping[tuple[int, int], Any], mission: Any) -> Game:
        game = Game("GoToRedBallNoDists", 0)
        world = game.world
        for x in range(1, 7):
            for y in range(1, 7):
                world.grid.set(x, y, None)
        world.agent_pos, world.agent_dir = START, 3
        for (right, forward), thing in things.items():
            world.put_obj(thing, START[0] + right, START[1] - forward)
        world.instrs = mission
        world.instrs.surface(world)
        world.instrs.reset_verifier(world)
        world.mission = mission.surface(world)
        game.look()
        return game

    return build


@pytest.fixture
def objects() -> Any:
    """minigrid's things: Ball, Box, Door, Key."""
    return import_module("minigrid.core.world_object")


@pytest.fixture
def missions() -> Any:
    """minigrid's instructions: GoToInstr, OpenInstr, ObjDesc and so on."""
    return import_module("minigrid.envs.babyai.core.verifier")
