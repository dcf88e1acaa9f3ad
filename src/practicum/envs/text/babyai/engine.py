"""The one place that touches minigrid: it opens levels and says what they are.

minigrid draws a level from a seed. `fingerprint` names what was drawn, so that a task can
say which layout it means and another release of minigrid cannot quietly serve another.
"""

from __future__ import annotations

import os
from functools import lru_cache
from importlib import import_module
from typing import Any

from practicum.core.canonical import canonical_json, content_hash
from practicum.core.errors import ConfigError, unknown_name

World = Any
"""A level of minigrid's class `RoomGridLevel`, which says little about its own types."""

INSTALL = "pip install 'practicum[babyai]'"

LEVELS = (
    "GoToRedBallGrey GoToRedBall GoToRedBallNoDists GoToObjS6 GoToLocalS8N7 GoToObjMazeS7 "
    "GoToImpUnlock GoToSeqS5R2 GoToRedBlueBall GoToDoor GoToObjDoor Open OpenRedDoor "
    "OpenDoorLoc OpenRedBlueDoorsDebug OpenDoorsOrderN4Debug Pickup UnblockPickup PickupLoc "
    "PickupDistDebug PickupAbove PutNextLocalS6N4 PutNextS7N4Carrying Unlock UnlockLocalDist "
    "KeyInBox UnlockPickupDist BlockedUnlockPickup UnlockToUnlock ActionObjDoor FindObjS7 "
    "KeyCorridorS6R3 OneRoomS20 MoveTwoAcrossS8N9 SynthS5R2 SynthLoc SynthSeq MiniBossLevel "
    "BossLevel BossLevelNoUnlock"
).split()
"""AgentGym's forty levels in AgentGym's order: its level `n` is `LEVELS[n - 1]`."""

_SECOND_EDITIONS = {"GoToObjS6": "v1"}
"""Levels that minigrid registers under another version than `v0`."""


def open_level(level: str, seed: int) -> World:
    """Draw a level from a seed. Equal arguments give equal levels in every process."""
    if level not in LEVELS:
        raise unknown_name("level", level, LEVELS)
    name = f"BabyAI-{level}-{_SECOND_EDITIONS.get(level, 'v0')}"
    world = _load().make(name, disable_env_checker=True).unwrapped
    world.reset(seed=seed)
    # A step would encode the whole view for nobody: the text is made once per turn.
    world.gen_obs = _no_observation
    return world


def make_bot(world: World) -> Any:
    """Make minigrid's bot for a level."""
    return _bots().BabyAIBot(world)


def make_walk(bot: Any, target: Any) -> Any:
    """Make the bot's subgoal of walking to something."""
    return _bots().GoNextToSubgoal(bot, target)


def fingerprint(world: World) -> str:
    """Name a freshly drawn level: mission, every cell, the player and the step limit."""
    return content_hash(
        [
            str(world.mission),
            int(world.max_steps),
            [*map(int, world.agent_pos), int(world.agent_dir)],
            _named(world.carrying),
            _cells(world),
        ]
    )


def family(world: World) -> str:
    """Name the rooms with all in them, the mission, and the room the player starts in.

    Where in the room it starts does not count, and neither does which way the layout is
    turned: the player sees the world from within.
    """
    start = world.room_from_pos(*world.agent_pos)
    # Doubled, so that the middle of a room has whole numbers too.
    middle = [2 * top + size - 1 for top, size in zip(start.top, start.size, strict=True)]
    turned = [[2 * x, 2 * y, *rest] for x, y, *rest in _cells(world)]
    turned.append([*middle, "start"])
    views = []
    for _ in range(4):
        turned = [[-y, x, *rest] for x, y, *rest in turned]
        left, top = min(c[0] for c in turned), min(c[1] for c in turned)
        views.append(sorted([x - left, y - top, *rest] for x, y, *rest in turned))
    same = min(views, key=canonical_json)
    return content_hash([str(world.mission), _named(world.carrying), same])


def _cells(world: World) -> list[list[Any]]:
    grid = world.grid
    found = ((x, y, grid.get(x, y)) for x in range(grid.width) for y in range(grid.height))
    return [[x, y, *_named(cell)] for x, y, cell in found if cell is not None]


def _named(cell: Any) -> list[str]:
    """What a cell holds, in words that do not depend on minigrid's numbering."""
    if cell is None:
        return []
    state = [door_state(cell)] if cell.type == "door" else []
    return [cell.type, cell.color, *state, *_named(cell.contains)]


def door_state(door: Any) -> str:
    """Say whether a door is open, closed or locked."""
    if door.is_open:
        return "open"
    return "locked" if door.is_locked else "closed"


def _bots() -> Any:
    return import_module("minigrid.utils.baby_ai_bot")


@lru_cache(maxsize=1)
def _load() -> Any:
    """Import minigrid, which registers its levels, and return gymnasium."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    try:
        gymnasium = import_module("gymnasium")
        import_module("minigrid")
        drawing = import_module("minigrid.envs.babyai.core.roomgrid_level")
        verifier = import_module("minigrid.envs.babyai.core.verifier")
    except ImportError as error:
        raise ConfigError(
            f"environment 'babyai' needs minigrid, not installed: {INSTALL}"
        ) from error
    if verifier.use_done_actions:
        raise ConfigError(
            "BABYAI_DONE_ACTIONS is set: it changes what minigrid counts as success; unset it"
        )
    # minigrid prints each rejected draw. Standard output is the caller's, and redirecting
    # it would catch other threads; a name in that one module catches nothing else.
    vars(drawing)["print"] = _no_print
    return gymnasium


def _no_print(*_: object) -> None:
    """Swallow minigrid's remarks on rejected draws."""


def _no_observation() -> dict[str, Any]:
    return {}
