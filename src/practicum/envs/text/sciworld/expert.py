"""Programmed ScienceWorld players. They keep no state and never talk to the engine.

The expert plays the engine's own solution of a panel task, which a model is never shown.
It goes on after the actions of the path that were already done, so it can take over a game
that was played well so far; it does not repair one that was not. The random player reads
what a model reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from random import Random

from practicum.core.agent import Situation
from practicum.core.env import Decision
from practicum.core.message import Action
from practicum.envs.text.sciworld.gold import gold_path

_REASONS = (
    (r"look around", "I look at what is here."),
    (r"focus on (.+)", "The task asks me to focus, and {0} is the right thing."),
    (r"pick up (.+)", "I will need {0}, so I take it with me."),
    (r"put down (.+)", "I need {0} in the room and not in my inventory."),
    (r"open (.+)", "{0} may hold what I need."),
    (r"close (.+)", "{0} should be closed for this."),
    (r"activate (.+)", "{0} has to be switched on."),
    (r"deactivate (.+)", "{0} has done its work."),
    (r"look at (.+)", "I check how {0} is now."),
    (r"look in (.+)", "I check what is in {0}."),
    (r"use (.*thermometer.*) on (.+)", "I measure the temperature of {1}."),
    (r"use (.+) on (.+)", "I can use {0} on {1}."),
    (r"move (.+) to (.+)", "{0} belongs in {1} now."),
    (r"pour (.+) into (.+)", "I need what is in {0} in {1}."),
    (r"dunk (.+) into (.+)", "I fill {0} from {1}."),
    (r"mix (.+)", "All is in {0}; mixing makes it react."),
    (r"connect (.+) to (.+)", "The circuit needs {0} joined to {1}."),
    (r"disconnect (.+)", "{0} has to come out of the circuit."),
    (r"read (.+)", "{0} may say what to do."),
    (r"wait1?", "This needs time, so I wait."),
    (r"\d+", "This is the choice I mean."),
)
_WAY = re.compile(r"(?:open door to|go to) (.+)")

_DOOR = re.compile(r"door to the ([a-z ]+?) \(that is (open|closed)\)")
_THING = re.compile(r"^\t(?:an? |the )?(?:substance called )?([a-z][a-z ]*)", re.MULTILINE)
_IN_ROOM = ("pick up {}", "look at {}", "open {}", "activate {}", "move {} to {}", "use {}")


def play_expertly(situation: Situation) -> Decision:
    """Take the next action of the engine's own solution."""
    rest = _rest_of_path(situation)
    if not rest:
        return Decision(Action("wait1"), "All is done; I wait for it to take effect.")
    return Decision(Action(rest[0]), _thought(rest))


def count_remaining(situation: Situation) -> int:
    """How many actions of the engine's own solution are still to come."""
    return len(_rest_of_path(situation))


def play_randomly(situation: Situation) -> Decision:
    """Draw a passage or something to do with things that were seen last."""
    rng = Random(situation.seed)
    room = _last_room(situation)
    doors = _DOOR.findall(room)
    things = sorted({match.strip() for match in _THING.findall(room)} - {"agent"}) or ["air"]
    choice = rng.random()
    if choice < 0.4 and doors:
        place, state = rng.choice(doors)
        closed = state == "closed" and not _was_opened(situation, place)
        return Decision(Action(f"open door to {place}" if closed else f"go to {place}"))
    if choice < 0.6:
        return Decision(Action(rng.choice(("look around", "inventory", "wait1"))))
    if choice < 0.65:
        return Decision(Action(f"focus on {rng.choice(things)}"))
    form = rng.choice(_IN_ROOM)
    return Decision(Action(form.format(rng.choice(things), rng.choice(things))))


def _rest_of_path(situation: Situation) -> tuple[str, ...]:
    """What is left of the solution after the actions of it that were done, in their order."""
    path = gold_path(situation.task.id)
    done = 0
    for turn in situation.history:
        if turn.action is not None and done < len(path) and turn.action.text == path[done]:
            done += 1
    return path[done:]


def _thought(rest: Sequence[str]) -> str:
    action = rest[0]
    if way := _WAY.fullmatch(action):
        aim = next((a for a in rest if not _WAY.fullmatch(a) and a != "look around"), rest[-1])
        verb = "The door is in the way" if action.startswith("open") else "I go there"
        return f"My way leads to the {way[1]}: next I want to {aim}. {verb}."
    for pattern, reason in _REASONS:
        if match := re.fullmatch(pattern, action):
            text = reason.format(*match.groups())
            return text[0].upper() + text[1:]
    return f"The next thing to do is to {action}."


def _texts(situation: Situation) -> Iterator[str]:
    """What was shown, the latest first."""
    yield situation.observation.text
    for turn in reversed(situation.history):
        yield turn.observation.text


def _last_room(situation: Situation) -> str:
    return next((text for text in _texts(situation) if "This room is called" in text), "")


def _was_opened(situation: Situation, place: str) -> bool:
    """Whether that door was tried since the room was last described."""
    for turn in reversed(situation.history):
        if turn.action is not None and turn.action.text == f"open door to {place}":
            return True
        if "This room is called" in turn.observation.text:
            return False
    return False
