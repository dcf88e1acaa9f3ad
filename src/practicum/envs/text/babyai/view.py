"""What the player sees: minigrid's view as plain data, and in AgentGym's words.

Places are relative to the player, who stands at `(0, 0)` and looks along growing
`forward`. Only what minigrid shows in the seven by seven cells ahead is in a `View`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from practicum.envs.text.babyai.engine import World, door_state

Place = tuple[int, int]
"""Steps to the right and steps forward, from the player."""

HERE: Place = (0, 0)
AHEAD: Place = (0, 1)


@dataclass(frozen=True, slots=True)
class Thing:
    """Something with a name in the view: a key, ball, box or door."""

    kind: str
    color: str
    state: str
    """`open`, `closed` or `locked` for a door; otherwise empty."""
    number: int
    """Which of the things with this name it is, nearest first."""
    place: Place

    @property
    def name(self) -> str:
        """The thing without its number, as in `red closed door`."""
        return " ".join(filter(None, (self.color, self.state, self.kind)))

    @property
    def label(self) -> str:
        """The thing as actions name it, as in `red closed door 1`."""
        return f"{self.name} {self.number}"


@dataclass(frozen=True)
class View:
    """One look at the world."""

    things: tuple[Thing, ...]
    """Nearest first; equally near ones from far to near rows, left to right."""
    walls: frozenset[Place]
    free: frozenset[Place]
    """Cells that can be walked on, the player's own among them."""
    carried: tuple[str, str] | None
    """Kind and colour."""

    @cached_property
    def by_place(self) -> Mapping[Place, Thing]:
        """The things by where they are."""
        return {thing.place: thing for thing in self.things}


def read_view(world: World) -> View:
    """Read what the player sees now."""
    grid, is_seen = world.gen_obs_grid()
    size = int(world.agent_view_size)
    seen = []
    walls: set[Place] = set()
    free = {HERE}
    for row in range(size):
        for column in range(size):
            place = (column - size // 2, size - 1 - row)
            # The player's own cell shows what is carried.
            if place == HERE or not is_seen[column, row]:
                continue
            cell = grid.get(column, row)
            if cell is None or cell.can_overlap():
                free.add(place)
            if cell is None:
                continue
            if cell.type == "wall":
                walls.add(place)
                continue
            state = door_state(cell) if cell.type == "door" else ""
            seen.append((str(cell.type), str(cell.color), state, place))
    seen.sort(key=lambda thing: abs(thing[-1][0]) + thing[-1][1])
    counts: dict[tuple[str, str, str], int] = {}
    things = []
    for kind, color, state, place in seen:
        number = counts[kind, color, state] = counts.get((kind, color, state), 0) + 1
        things.append(Thing(kind, color, state, number, place))
    held = world.carrying
    carried = (str(held.type), str(held.color)) if held else None
    return View(tuple(things), frozenset(walls), frozenset(free), carried)


def describe(view: View) -> str:
    """Tell a view in AgentGym's words, its spacing included."""
    if view.things:
        seen = "In front of you in this room, you can see several objects: " + "".join(
            f"There is a {thing.label} {_where(thing.place)}  " for thing in view.things
        )
    else:
        seen = "You cannot see any objects within sight. "
    return f"{seen}The room has walls around you. {_facing(view)}{_carrying(view)}"


def _where(place: Place) -> str:
    right, forward = place
    if right == 0:
        return f"right in front of you {forward} steps away."
    side = "right" if right > 0 else "left"
    return f"{forward} steps in front of you and {abs(right)} steps to your {side}."


def _facing(view: View) -> str:
    barriers = dict.fromkeys(view.walls, "wall")
    barriers |= {thing.place: "box" for thing in view.things if thing.kind == "box"}
    ahead = [(forward, name) for (right, forward), name in barriers.items() if right == 0]
    if not ahead:
        return ""
    distance, name = min(ahead)
    return f"You are facing a {name} {distance} steps away. "


def _carrying(view: View) -> str:
    if view.carried is None:
        return "You are not carrying anything."
    kind, color = view.carried
    return f"You are carrying a {color} {kind}."
