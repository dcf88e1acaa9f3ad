"""Programmed players: the task's oracle and its likely mistake, and a random one.

Oracle and mistake are written down in the task, as actions with elements in place of
coordinates; what the agent is shown says where they are. While something is not there yet, the
player waits. All of them act through the same actions as an agent: pointer and keyboard alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from practicum.core.agent import Situation
from practicum.core.env import Decision, Script
from practicum.core.errors import PolicyError
from practicum.core.message import Action
from practicum.desktops.computer import Screen
from practicum.envs.desktop.actions import Space, from_pixels
from practicum.envs.desktop.observe import find_shown, shown_windows
from practicum.envs.desktop.targets import PLACE, Target, read_target

PATIENCE = "wait 1"
"""What a player does while something is not there yet; no step of an oracle is this."""
DONE = "done"

_KEYS = ("enter", "tab", "esc", "up", "down", "left", "right", "ctrl+a", "ctrl+z", "alt+f4")
_WORDS = ("hello", "ls", "42", "notes.txt")


def make_player(steps_key: str, write: Callable[[str], str]) -> Script:
    """A player of the steps in the task under a key; `done` follows when they do not end it.

    `write` puts an action into the language that is spoken.
    """
    patience = write(PATIENCE)

    def play(situation: Situation) -> Decision:
        steps: Sequence[Mapping[str, Any]] = situation.task.data.get(steps_key) or ()
        taken = sum(1 for t in situation.history if t.action is None or t.action.text != patience)
        if taken >= len(steps):
            return Decision(Action(write(DONE)))
        step = steps[taken]
        shown = situation.observation.text
        if "when" in step and _find(shown, read_target(step["when"])) is None:
            return Decision(Action(patience), f"There is no {step['when']} yet.")
        text = step["act"]
        for place in PLACE.finditer(text):
            at = _find(shown, read_target(place["target"]))
            if at is None:
                _require_sight(shown, place["target"])
                return Decision(Action(patience), f"There is no {place['target']} yet.")
            text = text.replace(place[0], f"{at[0]} {at[1]}")
        return Decision(Action(write(text)))

    return play


def _find(shown: str, target: Target) -> tuple[str, str] | None:
    if target.role == "window":
        return ("0", "0") if any(map(target.fits, shown_windows(shown))) else None
    return find_shown(shown, target.role, target.name, target.nth)


def _require_sight(shown: str, target: str) -> None:
    if "Windows, the topmost last:" not in shown and "There is no window." not in shown:
        raise PolicyError(
            f"the task's oracle looks for {target}, which pictures do not tell it: "
            "play it with the option view=tree or view=both",
            kind="oracle",
        )


def make_random_player(space: Space, screen: Screen, write: Callable[[str], str]) -> Script:
    """A player that does anything, by the turn's seed."""

    def play(situation: Situation) -> Decision:
        rng = random.Random(situation.seed)

        def point() -> str:
            pixel = rng.randrange(screen.width), rng.randrange(screen.height)
            x, y = from_pixels(*pixel, space, screen)
            return f"{x:g} {y:g}"

        kinds: list[Callable[[], str]] = [
            lambda: f"click {point()}",
            lambda: f"double_click {point()}",
            lambda: f"type {rng.choice(_WORDS)}",
            lambda: f"key {rng.choice(_KEYS)}",
            lambda: f"scroll {point()} {rng.choice(('up', 'down'))} {rng.randint(1, 5)}",
            lambda: "done",
        ]
        return Decision(Action(write(rng.choice(kinds)())))

    return play
