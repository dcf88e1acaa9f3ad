"""The actions of an environment as data.

One list of `Command`s per environment serves every answer format: it is written into the
instructions, it turns `get 2 oak logs` into `get(count=2, item="oak logs")` for JSON and
code formats, and back. A text that fits no command is carried as it is, through the
reserved name `act`, so that no format loses an action it cannot name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

FREE_TEXT = "act"
"""The function name under which any action text can be given as it stands."""

Argument = str | int | float


@dataclass(frozen=True, slots=True)
class Command:
    """One action of an environment: `get {count:int} {item}` with a line on what it does."""

    name: str
    template: str
    """Literal words and slots: `{text}`, `{count:int}`, `{x:number}`, `{way:up|down}`."""
    help: str
    is_multiline: bool = False
    """Its text may span lines, as SQL does."""

    @property
    def parameters(self) -> dict[str, str]:
        """Parameter names with their types, in order."""
        return {name: kind or "str" for name, kind in _SLOT.findall(self.template)}


@dataclass(frozen=True, slots=True)
class Call:
    """An action as a function call."""

    name: str
    arguments: Mapping[str, Argument]


_SLOT = re.compile(r"\{(\w+)(?::([\w|]+))?\}")
# Longer numbers mean nothing to any environment, and Python refuses to read the longest.
_PATTERNS = {"": r".+?", "int": r"-?\d{1,15}", "number": r"-?\d{1,15}(?:\.\d{1,15})?"}


def to_call(commands: Sequence[Command], text: str) -> Call:
    """Read an action text as a call; one that fits no command becomes `act(text=…)`."""
    for command in commands:
        match = _pattern(command.template).fullmatch(text)
        if match is None:
            continue
        kinds = command.parameters
        call = Call(
            command.name,
            {name: _read(kinds[name], value) for name, value in match.groupdict().items()},
        )
        # `get 007 logs` reads as a call but would come back as `get 7 logs`.
        if to_text(commands, call) == text:
            return call
    return Call(FREE_TEXT, {"text": text})


def to_text(commands: Sequence[Command], call: Call) -> str:
    """Write a call as the environment's action text.

    Raises `ValueError`, worded for the model, if there is no such call.
    """
    if call.name == FREE_TEXT:
        text = call.arguments.get("text")
        if set(call.arguments) != {"text"} or not isinstance(text, str):
            raise ValueError(f"{FREE_TEXT} takes exactly one argument, text")
        return text
    command = next((c for c in commands if c.name == call.name), None)
    if command is None:
        known = ", ".join(c.name for c in commands)
        raise ValueError(f"there is no function {call.name!r}; there are: {known}")
    return _fill(command, call.arguments)


def signature(command: Command) -> str:
    """Write a command as a Python signature, for instructions."""
    inner = ", ".join(f"{name}: {kind}" for name, kind in command.parameters.items())
    return f"{command.name}({inner})"


def usage(command: Command) -> str:
    """Write a command as action text with its parameters in capitals, for instructions."""
    return _SLOT.sub(_blank, command.template)


def _blank(slot: re.Match[str]) -> str:
    name, kind = slot.groups()
    return kind if kind and "|" in kind else name.upper()


def _read(kind: str, text: str) -> Argument:
    if kind == "int" or (kind == "number" and "." not in text):
        return int(text)
    return float(text) if kind == "number" else text


def _fill(command: Command, arguments: Mapping[str, Argument]) -> str:
    kinds = command.parameters
    if set(arguments) != set(kinds):
        wanted = ", ".join(kinds) or "no arguments"
        raise ValueError(f"{command.name} takes {wanted}; got {', '.join(arguments) or 'none'}")
    written = {
        name: _write(kind, arguments[name], f"{command.name}: {name}")
        for name, kind in kinds.items()
    }
    return _SLOT.sub(lambda slot: written[slot.group(1)], command.template)


def _write(kind: str, value: Argument, what: str) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind == "int" and not (is_number and isinstance(value, int)):
        raise ValueError(f"{what} must be a whole number, not {value!r}")
    if kind == "number":
        if not is_number or not math.isfinite(value):  # type: ignore[arg-type]
            raise ValueError(f"{what} must be a number, not {value!r}")
        # No exponents, and no digits finer than any screen.
        return str(value) if isinstance(value, int) else f"{value:.6f}".rstrip("0").rstrip(".")
    if kind == "str" and not isinstance(value, str):
        raise ValueError(f"{what} must be a string, not {value!r}")
    if "|" in kind and value not in kind.split("|"):
        raise ValueError(f"{what} must be one of {', '.join(kind.split('|'))}, not {value!r}")
    return str(value)


@lru_cache(maxsize=256)
def _pattern(template: str) -> re.Pattern[str]:
    parts: list[str] = []
    end = 0
    for slot in _SLOT.finditer(template):
        parts.append(re.escape(template[end : slot.start()]))
        kind = slot.group(2) or ""
        inner = _PATTERNS.get(kind, kind)
        parts.append(f"(?P<{slot.group(1)}>{inner})")
        end = slot.end()
    parts.append(re.escape(template[end:]))
    return re.compile("".join(parts), re.DOTALL)
