"""The household world in plain Python: a house as data, and what can be done in it.

Answers are word for word those of ALFWorld 0.4 on TextWorld's planning engine, and so is
what is possible: a test plays the same problems in both. As there, an action is possible
exactly if its command is among `House.actions()`; anything else changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from practicum.envs.text.alfworld.goals import LOOK, Goal
from practicum.envs.text.alfworld.things import (
    APPLIANCES,
    KNIVES,
    LAMPS,
    OPENABLE,
    PLACES,
    SLICEABLE,
    VESSELS,
    kind,
    shown_order,
)

HELP = """\
Available commands:
  look:                             look around your current location
  inventory:                        check your current inventory
  go to (receptacle):               move to a receptacle
  open (receptacle):                open a receptacle
  close (receptacle):               close a receptacle
  take (object) from (receptacle):  take an object from a receptacle
  move (object) to (receptacle):  place an object in or on a receptacle
  examine (something):              examine a receptacle or an object
  use (object):                     use an object
  heat (object) with (receptacle):  heat an object using a receptacle
  clean (object) with (receptacle): clean an object using a receptacle
  cool (object) with (receptacle):  cool an object using a receptacle
  slice (object) with (object):     slice an object using a sharp object
"""

Step = tuple[str, ...]
"""A verb and what it is done to."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A house before anything is done. Immutable, so episodes can share it."""

    receptacles: tuple[str, ...]
    contents: Mapping[str, tuple[str, ...]]
    opened: frozenset[str]

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Scene:
        """Read a scene from a task's data."""
        contents = {
            f"{word} {number}": tuple(names)
            for word, filled in data["receptacles"].items()
            for number, names in enumerate(filled, start=1)
        }
        return cls(
            receptacles=tuple(sorted(contents, key=shown_order)),
            contents=contents,
            opened=frozenset(data["open"]),
        )


class House:
    """One house while it is lived in."""

    def __init__(self, scene: Scene) -> None:
        self.receptacles = scene.receptacles
        self.at: str | None = None
        """The receptacle in front of the player; None in the middle of the room."""
        self.held: str | None = None
        self.place_of = {name: place for place, names in scene.contents.items() for name in names}
        """Object -> its receptacle, for all that is not held."""
        self.opened = set(scene.opened)
        self.states: dict[str, set[str]] = {}
        """Object -> `clean`, `hot`, `cool`, `sliced`, `on`."""

    def state_key(self) -> str:
        """All that can change, in one order."""
        states = sorted((name, sorted(marks)) for name, marks in self.states.items() if marks)
        places = sorted(self.place_of.items())
        return str((self.at, self.held, places, sorted(self.opened), states))

    def actions(self) -> dict[str, Step]:
        """Everything that can be done now: command -> step, in order of the commands."""
        steps: list[Step] = [("help",), ("inventory",), ("look",)]
        steps += [("go to", r) for r in self.receptacles if r != self.at]
        if self.at is not None:
            steps += self._actions_at(self.at)
        if self.held is not None:
            steps.append(("examine", self.held))
        commands = {_command(step): step for step in steps}
        return dict(sorted(commands.items()))

    def _actions_at(self, place: str) -> list[Step]:
        steps: list[Step] = [("examine", place)]
        if kind(place) in OPENABLE:
            steps.append(("close" if place in self.opened else "open", place))
        inside = self.inside(place)
        steps += [("use", name) for name in inside if kind(name) in LAMPS]
        if self.held is None and self._is_accessible(place):
            steps += [("take", name, place) for name in inside if kind(name) not in LAMPS]
        if self.held is not None:
            steps += self._actions_with(self.held, place, inside)
        return steps

    def _actions_with(self, held: str, place: str, inside: Iterable[str]) -> list[Step]:
        steps: list[Step] = []
        if self._is_accessible(place) and kind(place) in PLACES[kind(held)]:
            steps.append(("move", held, place))
        for verb, (appliance, objects) in APPLIANCES.items():
            if kind(place) == appliance and kind(held) in objects:
                steps.append((verb, held, place))
        if kind(held) in KNIVES:
            # The engine slices through the door of a closed fridge, too.
            steps += [("slice", name, held) for name in inside if kind(name) in SLICEABLE]
        return steps

    def inside(self, place: str) -> list[str]:
        """What is in a receptacle, in the order it is shown."""
        found = [name for name, where in self.place_of.items() if where == place]
        return sorted(found, key=shown_order)

    def _is_accessible(self, place: str) -> bool:
        return kind(place) not in OPENABLE or place in self.opened

    def has(self, name: str, state: str) -> bool:
        """Whether an object is in a state."""
        return state in self.states.get(name, ())

    def do(self, step: Step) -> str:
        """Carry out a possible step and tell what happened."""
        verb, *names = step
        if verb in APPLIANCES:
            return self._treat(verb, *names)
        match verb, names:
            case "go to", [place]:
                self.at = place
                return f"You arrive at {place}. {self._examine_receptacle(place)}"
            case "open", [place]:
                self.opened.add(place)
                return f"You open the {place}. {self._examine_receptacle(place)}"
            case "close", [place]:
                self.opened.remove(place)
                return f"You close the {place}."
            case "take", [name, place]:
                self.held = name
                del self.place_of[name]
                return f"You pick up the {name} from the {place}."
            case "move", [name, place]:
                self.held = None
                self.place_of[name] = place
                return f"You move the {name} to the {place}."
            case "use", [lamp]:
                # The engine has no off: a lamp that was switched once counts as on.
                self.states.setdefault(lamp, set()).add("on")
                return f"You turn on the {lamp}."
            case "slice", [name, knife]:
                self.states.setdefault(name, set()).add("sliced")
                return f"You sliced the {name} with the {knife}."
            case "examine", [name]:
                if name == self.held:
                    return self._examine_object(name)
                return self._examine_receptacle(name)
            case "inventory", []:
                return (
                    f"You are carrying: a {self.held}."
                    if self.held
                    else "You are not carrying anything."
                )
            case "look", []:
                if self.at is None:
                    return f"{_MIDDLE} nothing."  # the engine shows the room only once
                return f"You are facing the {self.at}. Next to it, you see nothing."
            case _:
                return HELP

    def _treat(self, verb: str, name: str, place: str) -> str:
        states = self.states.setdefault(name, set())
        added, removed = _EFFECTS[verb]
        states.add(added)
        states.discard(removed)
        return f"You {verb} the {name} using the {place}."

    def overview(self) -> str:
        """Describe the room, as it is shown at the start."""
        return f"{_MIDDLE} {listing(self.receptacles)}."

    def _examine_receptacle(self, place: str) -> str:
        if not self._is_accessible(place):
            return f"The {place} is closed."
        seen = listing(self.inside(place))
        if kind(place) in OPENABLE:
            return f"The {place} is open. In it, you see {seen}."
        return f"On the {place}, you see {seen}."

    def _examine_object(self, name: str) -> str:
        if kind(name) in VESSELS:
            return f"This is a normal {name}. In it, you see nothing."
        heat = "hot" if self.has(name, "hot") else "cool" if self.has(name, "cool") else ""
        words = [heat, "clean"] if self.has(name, "clean") else [heat]
        state = " and ".join(filter(None, words))
        if self.has(name, "sliced"):
            return f"This is a {state} sliced {name}." if state else f"This is a sliced {name}."
        # The engine says cool of what is also clean or sliced, and cold of what is only cold.
        state = "cold" if state == "cool" else state
        return f"This is a {state} {name}." if state else f"There's nothing special about {name}."

    def fulfils(self, goal: Goal) -> bool:
        """Whether the goal is reached."""
        if goal.task_type == LOOK:
            is_lit = any(
                kind(name) == goal.target and self.has(name, "on")
                for name, place in self.place_of.items()
                if place == self.at
            )
            return is_lit and self.held is not None and kind(self.held) == goal.object
        state = _EFFECTS[goal.treatment][0] if goal.treatment else None
        counts: dict[str, int] = {}
        for name, place in self.place_of.items():
            if kind(name) == goal.object and kind(place) == goal.target:
                counts[place] = counts.get(place, 0) + (state is None or self.has(name, state))
        return max(counts.values(), default=0) >= goal.num_objects


_MIDDLE = "You are in the middle of a room. Looking quickly around you, you see"

_EFFECTS: Mapping[str, tuple[str, str]] = {
    "clean": ("clean", ""),
    "heat": ("hot", "cool"),
    "cool": ("cool", "hot"),
}
"""Verb -> the state it gives and the one it takes away."""

_TEMPLATES: Mapping[str, str] = {
    "take": "take {} from {}",
    "move": "move {} to {}",
    "clean": "clean {} with {}",
    "heat": "heat {} with {}",
    "cool": "cool {} with {}",
    "slice": "slice {} with {}",
}


def _command(step: Step) -> str:
    verb, *names = step
    return _TEMPLATES[verb].format(*names) if verb in _TEMPLATES else " ".join(step)


def listing(names: Iterable[str]) -> str:
    """Write a list as the engine does: `a cup 2, a cup 1, and a mug 1`."""
    items = [f"a {name}" for name in names]
    if not items:
        return "nothing"
    return ", ".join(items[:-1]) + f", and {items[-1]}" if len(items) > 1 else items[0]
