"""What can be done in a view: every action text with the low-level moves it stands for.

Paths lead over cells that are seen and free, so an action that is offered can be carried
out to its end. Actions that name something in view but cannot be done are kept with the
reason, worded as AgentGym words it.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from practicum.envs.text.babyai.view import AHEAD, HERE, Place, Thing, View

Moves = tuple[int, ...]

LEFT, RIGHT, FORWARD, PICK_UP, DROP, TOGGLE, WAIT = range(7)
"""minigrid's actions; a test holds them against its own list."""

CHECK = "check available actions"
"""Understood as in AgentGym and never needed: every answer lists the actions."""

NOT_UNDERSTOOD = "The action is not recognized. Please check valid actions."
NO_PATH = "as there is no path leading to it."

_DIRECTIONS: tuple[Place, ...] = ((0, 1), (1, 0), (0, -1), (-1, 0))
_NOISE = re.compile(r"[^a-z0-9, ]")
_MAX_ACTION_CHARS = 200


@dataclass(slots=True)
class Menu:
    """The actions of one moment."""

    actions: dict[str, Moves] = field(default_factory=dict)
    refusals: dict[str, str] = field(default_factory=dict)
    """Why an action that could have been meant is not to be had."""

    def offer(self, text: str, moves: Moves | None, refusal: str) -> None:
        """Add an action, or the refusal if there are no moves for it."""
        if moves is None:
            self.refusals[text] = refusal
        else:
            self.actions[text] = moves

    @property
    def line(self) -> str:
        """The list as every answer shows it."""
        return f"Available actions: {json.dumps(list(self.actions))}"


def normalise(text: str) -> str:
    """Read an action text generously: case, spacing, punctuation, `pickup`."""
    plain = _NOISE.sub("", text[:_MAX_ACTION_CHARS].lower())
    words = " ".join(plain.split())
    return re.sub(r"^pickup\b", "pick up", words)


def make_menu(view: View) -> Menu:
    """List what can be done, in AgentGym's order."""
    paths = _Paths(view)
    menu = Menu({"turn left": (LEFT,), "turn right": (RIGHT,)})
    menu.offer(
        "move forward",
        (FORWARD,) if AHEAD in view.free else None,
        "There is a barrier in front of you, you can't move forward.",
    )
    for thing in view.things:
        if thing.kind != "door":
            _offer_pick_up(menu, view, thing, paths)
    _offer_drop(menu, view)
    for thing in view.things:
        if thing.kind == "door":
            _offer_passage(menu, view, thing, paths)
    _offer_toggle(menu, view)
    for thing in view.things:
        # Without a move the world would not look whether the goal is reached.
        path = paths.facing(thing.place)
        menu.offer(
            f"go to {thing.label}",
            None if path is None else path or (WAIT,),
            f"You cannot go to {thing.label}, {NO_PATH}",
        )
    return menu


def _offer_pick_up(menu: Menu, view: View, thing: Thing, paths: _Paths) -> None:
    cannot = f"You cannot pick up {thing.label}"
    path = paths.facing(thing.place)
    if view.carried is not None:
        path = None
        kind, color = view.carried
        cannot = f"{cannot}, as you are already carrying a {color} {kind}."
    else:
        cannot = f"{cannot}, {NO_PATH}"
    menu.offer(f"pick up {thing.label}", None if path is None else (*path, PICK_UP), cannot)


def _offer_drop(menu: Menu, view: View) -> None:
    why = "you are not carrying anything."
    is_empty = AHEAD in view.free and AHEAD not in view.by_place
    if view.carried is not None:
        why = "there is already an object in front of you."
    can_drop = view.carried is not None and is_empty
    menu.offer("drop", (DROP,) if can_drop else None, f"You cannot drop the object, as {why}")


def _offer_passage(menu: Menu, view: View, door: Thing, paths: _Paths) -> None:
    walk, force = f"go through {door.label}", f"toggle and go through {door.label}"
    if door.state == "open":
        menu.offer(walk, paths.onto(door.place), f"You cannot {walk}, {NO_PATH}")
        menu.refusals[force] = f"You cannot {force}, as it is open. You can go through it."
        return
    menu.refusals[walk] = f"You cannot {walk}, as it is {door.state}. You should toggle it first."
    path = paths.facing(door.place)
    locked_out = _lacks_key(view, door)
    if locked_out or path is None:
        menu.refusals[force] = f"You cannot {force}, {locked_out or NO_PATH}"
    else:
        menu.actions[force] = (*path, TOGGLE, FORWARD)


def _offer_toggle(menu: Menu, view: View) -> None:
    ahead = view.by_place.get(AHEAD)
    if ahead is None or ahead.kind not in ("door", "box"):
        menu.refusals["toggle"] = "There is no door and no box right in front of you to toggle."
    elif why := _lacks_key(view, ahead):
        menu.refusals["toggle"] = f"You cannot toggle {ahead.label}, {why}"
    else:
        menu.actions["toggle"] = (TOGGLE,)


def _lacks_key(view: View, door: Thing) -> str:
    """Say why a locked door stays shut; empty if it does not."""
    if door.state != "locked" or view.carried == ("key", door.color):
        return ""
    if view.carried is None or view.carried[0] != "key":
        return "as you are not carrying a key."
    return "as the color of the key you are carrying does not match the color of door."


class _Paths:
    """Fewest moves from here to every cell in view, found in one sweep."""

    def __init__(self, view: View) -> None:
        start = (HERE, 0)
        self._came_from: dict[tuple[Place, int], tuple[tuple[Place, int], int] | None]
        self._came_from = {start: None}
        self._onto: dict[Place, tuple[Place, int]] = {}
        self._facing: dict[Place, tuple[Place, int]] = {}
        waiting = deque([start])
        while waiting:
            pose = waiting.popleft()
            (right, forward), heading = pose
            step_right, step_forward = _DIRECTIONS[heading]
            ahead = (right + step_right, forward + step_forward)
            self._onto.setdefault(pose[0], pose)
            self._facing.setdefault(ahead, pose)
            turns = [((pose[0], (heading - 1) % 4), LEFT), ((pose[0], (heading + 1) % 4), RIGHT)]
            steps = [((ahead, heading), FORWARD)] if ahead in view.free else []
            for following, move in steps + turns:
                if following not in self._came_from:
                    self._came_from[following] = (pose, move)
                    waiting.append(following)

    def facing(self, place: Place) -> Moves | None:
        """Moves that end right in front of a place and looking at it."""
        return self._moves(self._facing, place)

    def onto(self, place: Place) -> Moves | None:
        """Moves that end on a place."""
        return self._moves(self._onto, place)

    def _moves(self, ends: Mapping[Place, tuple[Place, int]], place: Place) -> Moves | None:
        if place not in ends:
            return None
        moves = []
        before = self._came_from[ends[place]]
        while before is not None:
            pose, move = before
            moves.append(move)
            before = self._came_from[pose]
        return tuple(reversed(moves))
