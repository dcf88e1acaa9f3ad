"""How an episode reads: the rules and commands, the first message, the list of actions.

Shared by the built-in world and TextWorld's engine, so that a task looks the same in both.
The form follows AgentGym: room, task, and with every observation the possible actions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from practicum.core.commands import Command

RULES = """\
You are in a household. The first message says what is in the room and names a task. Act on \
the house until the task is done.

- Objects are in or on receptacles. To see what is there, go to a receptacle, and open it \
if it is closed.
- You reach only what is at the receptacle you went to last, and carry one object at a time.
- To clean an object, carry it to a sinkbasin; to heat it, to a microwave; to cool it, to a \
fridge. To look at an object under a lamp, carry the object, go to where the lamp is and use \
the lamp.
- "a hot mug" is a mug that you heated yourself, and so with clean and cool.
- Every message ends with the actions that are possible. "Nothing happens." means that yours \
was not."""

COMMANDS: Sequence[Command] = (
    Command("go_to", "go to {receptacle}", "walk to a receptacle, such as cabinet 1"),
    Command("open", "open {receptacle}", "open the receptacle you are at"),
    Command("close", "close {receptacle}", "close the receptacle you are at"),
    Command("take", "take {object} from {receptacle}", "pick up an object where you are"),
    Command(
        "move", "move {object} to {receptacle}", "put what you carry into or onto where you are"
    ),
    Command("clean", "clean {object} with {receptacle}", "clean what you carry, at a sinkbasin"),
    Command("heat", "heat {object} with {receptacle}", "heat what you carry, at a microwave"),
    Command("cool", "cool {object} with {receptacle}", "cool what you carry, at a fridge"),
    Command("use", "use {lamp}", "switch on a lamp where you are"),
    Command("slice", "slice {object} with {knife}", "slice an object with the knife you carry"),
    Command("examine", "examine {thing}", "look at where you are, or at what you carry"),
    Command("look", "look", "see where you are"),
    Command("inventory", "inventory", "see what you carry"),
)

MAX_TURNS = 50
"""ALFWorld's horizon. A whole room can be searched in 39 turns, and the rest takes 8 at most."""

NOTHING_HAPPENS = "Nothing happens."
TASK_MARK = "Your task is to: "
ACTIONS_MARK = "AVAILABLE ACTIONS: "

_BANNER = "-= Welcome to TextWorld, ALFRED! =-"
_MAX_COMMAND_CHARS = 200
_PUT = re.compile(r"put (\S+ \S+) (?:in/on|into|onto|in|on) (\S+ \S+)")


def to_command(text: str) -> str:
    """Read what was typed: case and spacing are free, and ALFWorld 0.3's `put` is `move`."""
    if len(text) > _MAX_COMMAND_CHARS:
        return ""
    command = " ".join(text.lower().split())
    return _PUT.sub(r"move \1 to \2", command) if _PUT.fullmatch(command) else command


def first_text(overview: str, goal: str) -> str:
    """Write the first message, without the actions."""
    return f"{overview}\n{TASK_MARK}{goal}"


def without_banner(intro: str) -> str:
    """Bring the engine's own first message into the form of `first_text`."""
    lines = (line for line in intro.splitlines() if line and line != _BANNER)
    return "\n".join(lines)


def with_actions(text: str, actions: Iterable[str]) -> str:
    """Add the possible actions. Help is possible, too, but says less than this list."""
    return f"{text}\n{ACTIONS_MARK}{', '.join(a for a in actions if a != 'help')}"


def split_actions(text: str) -> tuple[str, list[str]]:
    """Take an observation apart again; the list is empty if it holds none."""
    said, _, actions = text.partition(f"\n{ACTIONS_MARK}")
    return said, actions.split(", ") if actions else []
