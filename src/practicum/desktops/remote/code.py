"""Inputs as pyautogui code, for servers that know no other way to use pointer and keyboard."""

from __future__ import annotations

from collections.abc import Sequence

from practicum.core.errors import MachineError
from practicum.desktops import gestures
from practicum.desktops.computer import Input, Key, Move, Press, Scroll, Text, Wait

PAUSE_S = 0.02
BEGIN = f"import pyautogui; import time; pyautogui.FAILSAFE = False; pyautogui.PAUSE = {PAUSE_S}; "
_NAMES = {"control": "ctrl", "super": "win", "meta": "win"}
_PLAIN = frozenset(map(chr, range(32, 127))) | {"\n", "\t"}


def write(inputs: Sequence[Input], *, less_than_is_greater: bool) -> str:
    """Write code that does the inputs.

    With pyautogui on X, `<` types `>` (`less_than_is_greater`), so it is typed as shift and
    comma there. Characters that it leaves out without a word are a `MachineError`.
    """
    lines: list[str] = []
    for one in inputs:
        match one:
            case Move(x, y):
                lines.append(f"pyautogui.moveTo({x}, {y})")
            case Press(button, is_down):
                lines.append(f"pyautogui.mouse{_way(is_down)}(button={button!r})")
            case Key(name, is_down):
                lines.append(f"pyautogui.key{_way(is_down)}({_key(name)!r})")
            case Scroll(up, right):
                lines += [f"pyautogui.scroll({up})"] if up else []
                lines += [f"pyautogui.hscroll({right})"] if right else []
            case Wait(seconds):
                lines.append(f"time.sleep({seconds!r})")
            case Text(text):
                lines += _typing(text, less_than_is_greater)
    return BEGIN + "; ".join(lines)


def _way(is_down: bool) -> str:
    return "Down" if is_down else "Up"


def _key(name: str) -> str:
    if len(name) == 1 and name in _PLAIN | {" "}:
        return name
    plain = _NAMES.get(name.lower(), name.lower())
    if plain in gestures.KEYS:
        return plain
    if len(name) == 1:
        raise _unsupported(name)
    raise ValueError(f"there is no key {name!r}: use a character or a name as in enter, ctrl, f5")


def _typing(text: str, less_than_is_greater: bool) -> list[str]:
    strange = sorted(set(text) - _PLAIN)
    if strange:
        raise _unsupported(strange[0])
    parts = text.split("<") if less_than_is_greater else [text]
    lines = []
    for index, part in enumerate(parts):
        if index:
            lines.append("pyautogui.hotkey('shift', ',')")
        if part:
            lines.append(f"pyautogui.write({part!r})")
    return lines


def _unsupported(character: str) -> MachineError:
    return MachineError(
        f"the character {character!r} cannot be typed through pyautogui: put the text into the "
        "clipboard and paste it",
        kind="unsupported",
    )
