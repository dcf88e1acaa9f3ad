"""What an agent can do on a desktop, and what that means for pointer and keyboard.

The commands are data like those of every environment, so every answer format writes and reads
them. Coordinates are in one declared space: pixels of the screen, fractions `0..1`, or `0..999`.
A point outside the space is refused with the reason; it is never moved to the nearest one that
is on the screen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from practicum.core.commands import FREE_TEXT, Argument, Command, to_call
from practicum.desktops.computer import Button, Input, Key, Move, Press, Screen, Scroll, Text, Wait

Space = Literal["pixels", "unit", "thousand"]
SPACES: tuple[Space, ...] = get_args(Space)

MAX_WAIT_S = 10.0
MAX_SCROLL = 50
MAX_TEXT_CHARS = 10_000
MODIFIERS = ("ctrl", "shift", "alt", "win")
DRAG_STEPS = 8
"""A drag that jumps is not taken for one by every toolkit."""


class RefusedError(Exception):
    """The agent asked for what cannot be done; the text is its feedback."""


@dataclass(frozen=True, slots=True)
class Performed:
    """Something to do with pointer and keyboard."""

    inputs: tuple[Input, ...]


@dataclass(frozen=True, slots=True)
class Ended:
    """The agent says that it is finished."""

    how: Literal["done", "fail", "answer"]
    answer: str = ""


Meaning = Performed | Ended


def desktop_commands(space: Space) -> tuple[Command, ...]:
    """The actions, with coordinates as the space has them."""
    kind = "number" if space == "unit" else "int"
    at = f"{{x:{kind}}} {{y:{kind}}}"
    return (
        Command("click", f"click {at}", "press the left button at a point"),
        Command("double_click", f"double_click {at}", "click twice at a point"),
        Command("right_click", f"right_click {at}", "press the right button at a point"),
        Command(
            "drag",
            f"drag {at} {{to_x:{kind}}} {{to_y:{kind}}}",
            "hold the left button from the first point to the second",
        ),
        Command("move", f"move {at}", "put the pointer at a point"),
        Command("type", "type {text}", "type a text where the keyboard is; press keys with `key`"),
        Command("key", "key {key}", "press a key, with modifiers if need be: enter, shift+tab"),
        Command("hotkey", "hotkey {keys}", "hold several keys down together: ctrl+alt+t"),
        Command(
            "scroll",
            f"scroll {at} {{direction:up|down|left|right}} {{amount:int}}",
            f"turn the wheel at a point by 1 to {MAX_SCROLL} clicks",
        ),
        Command("wait", "wait {seconds:number}", f"let up to {MAX_WAIT_S:g} seconds pass"),
        Command("done", "done", "say that the task is complete; ends the episode"),
        Command("fail", "fail", "say that the task cannot be done; ends the episode"),
        Command("answer", "answer {text}", "answer a question; ends the episode"),
    )


def describe_space(space: Space, screen: Screen) -> str:
    """Say in a sentence what coordinates mean."""
    if space == "pixels":
        return (
            f"Coordinates are pixels: x from 0 to {screen.width - 1}, y from 0 to "
            f"{screen.height - 1}, from the upper left corner."
        )
    top = "1" if space == "unit" else "999"
    kind = "fractions of" if space == "unit" else "thousandths of"
    return (
        f"Coordinates are {kind} the screen: x and y from 0 to {top}, from the upper left corner."
    )


def to_pixels(x: float, y: float, space: Space, screen: Screen) -> tuple[int, int]:
    """Find the pixel of a point; one that is off the screen is refused."""
    if space == "pixels":
        limits = (screen.width - 1, screen.height - 1)
    else:
        limits = (1, 1) if space == "unit" else (999, 999)
    if not (0 <= x <= limits[0] and 0 <= y <= limits[1]):
        raise RefusedError(
            f"The point {x:g}, {y:g} is off the screen: x goes from 0 to {limits[0]}, "
            f"y from 0 to {limits[1]}."
        )
    if space == "pixels":
        return int(x), int(y)
    cells = 1 if space == "unit" else 1000
    # The middle of a cell in thousandths; the last fraction is the last pixel.
    shift = 0.0 if space == "unit" else 0.5
    return (
        min(screen.width - 1, int((x + shift) / cells * screen.width)),
        min(screen.height - 1, int((y + shift) / cells * screen.height)),
    )


def from_pixels(x: int, y: int, space: Space, screen: Screen) -> tuple[float, float]:
    """Write a pixel in the space's coordinates; `to_pixels` leads back to it or next to it."""
    if space == "pixels":
        return x, y
    if space == "thousand":
        return x * 1000 // screen.width, y * 1000 // screen.height
    return round((x + 0.5) / screen.width, 4), round((y + 0.5) / screen.height, 4)


def read_action(text: str, space: Space, screen: Screen) -> Meaning:
    """Read an action text; one that means nothing is refused. Keys are known to the computer."""
    call = to_call(desktop_commands(space), text)
    if call.name == FREE_TEXT:
        names = ", ".join(command.name for command in desktop_commands(space))
        raise RefusedError(f"No such action: {text[:80]!r}. Actions are: {names}.")
    if call.name == "answer":
        return Ended("answer", str(call.arguments["text"]))
    if call.name == "done":
        return Ended("done")
    if call.name == "fail":
        return Ended("fail")

    def point(x: str = "x", y: str = "y") -> tuple[int, int]:
        return to_pixels(_number(call.arguments[x]), _number(call.arguments[y]), space, screen)

    return Performed(_INPUTS[call.name](call.arguments, point))


Arguments = Mapping[str, Argument]
Point = Callable[..., tuple[int, int]]


def _number(value: Argument) -> float:
    assert not isinstance(value, str)
    return value


def _clicks(button: Button, times: int) -> Callable[..., tuple[Input, ...]]:
    def make(_: Arguments, point: Point) -> tuple[Input, ...]:
        once: tuple[Input, ...] = (Press(button), Press(button, is_down=False))
        # Without a pause between: on a busy host it could grow until two clicks are no double.
        return (Move(*point()), *once * times)

    return make


def _drag(_: Arguments, point: Point) -> tuple[Input, ...]:
    (x, y), (to_x, to_y) = point(), point("to_x", "to_y")
    way: list[Input] = []
    for step in range(1, DRAG_STEPS + 1):
        share = step / DRAG_STEPS
        way += [Move(round(x + (to_x - x) * share), round(y + (to_y - y) * share)), Wait(0.02)]
    return (Move(x, y), Press(), Wait(0.05), *way, Press(is_down=False))


def _move(_: Arguments, point: Point) -> tuple[Input, ...]:
    return (Move(*point()),)


def _type(arguments: Arguments, _: Point) -> tuple[Input, ...]:
    text = str(arguments["text"])
    if len(text) > MAX_TEXT_CHARS:
        raise RefusedError(f"The text has {len(text)} characters; at most {MAX_TEXT_CHARS} go.")
    if bad := sorted({c for c in text if not c.isprintable() and c not in "\n\t"}):
        raise RefusedError(f"The text holds a character that no keyboard has: {bad[0]!r}.")
    return (Text(text),)


def _key(arguments: Arguments, _: Point) -> tuple[Input, ...]:
    names = _key_names(str(arguments["key"]))
    if strangers := [name for name in names[:-1] if name not in MODIFIERS]:
        raise RefusedError(
            f"{strangers[0]!r} is no modifier; modifiers are {', '.join(MODIFIERS)}. "
            "Use hotkey for other keys held together."
        )
    return _held(names)


def _hotkey(arguments: Arguments, _: Point) -> tuple[Input, ...]:
    return _held(_key_names(str(arguments["keys"])))


def _key_names(text: str) -> list[str]:
    # `ctrl++` is control and plus: the last of two pluses is the key.
    parts = ["+"] if text == "+" else text.removesuffix("++").split("+")
    names = [part.strip().lower() for part in parts]
    if text.endswith("++"):
        names.append("+")
    if "" in names:
        raise RefusedError(f"{text[:40]!r} names no key after a plus.")
    return names


def _held(names: Sequence[str]) -> tuple[Input, ...]:
    downs = [Key(name) for name in names]
    ups = [Key(name, is_down=False) for name in reversed(names)]
    return (*downs, *ups)


def _scroll(arguments: Arguments, point: Point) -> tuple[Input, ...]:
    amount = int(_number(arguments["amount"]))
    if not 1 <= amount <= MAX_SCROLL:
        raise RefusedError(f"Scroll by 1 to {MAX_SCROLL}, not by {amount}.")
    turns = {
        "up": Scroll(up=amount),
        "down": Scroll(up=-amount),
        "right": Scroll(right=amount),
        "left": Scroll(right=-amount),
    }
    return (Move(*point()), turns[str(arguments["direction"])])


def _wait(arguments: Arguments, _: Point) -> tuple[Input, ...]:
    seconds = _number(arguments["seconds"])
    if not 0 <= seconds <= MAX_WAIT_S:
        raise RefusedError(f"Wait between 0 and {MAX_WAIT_S:g} seconds, not {seconds:g}.")
    return (Wait(float(seconds)),)


_INPUTS: dict[str, Callable[..., tuple[Input, ...]]] = {
    "click": _clicks("left", 1),
    "double_click": _clicks("left", 2),
    "right_click": _clicks("right", 1),
    "drag": _drag,
    "move": _move,
    "type": _type,
    "key": _key,
    "hotkey": _hotkey,
    "scroll": _scroll,
    "wait": _wait,
}
