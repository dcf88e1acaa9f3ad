"""The languages an agent can act in: commands of ours, or pyautogui code.

Both say the same things. Oracles are written in commands; `write` puts them into the language
that is spoken, so demonstrations exist in either.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol, get_args

from practicum.core.commands import Command, to_call
from practicum.desktops.computer import Computer
from practicum.desktops.dialect import DialectError
from practicum.desktops.dialect import read as read_code
from practicum.envs.desktop.actions import (
    Ended,
    Meaning,
    Performed,
    RefusedError,
    Space,
    desktop_commands,
    read_action,
)

LanguageName = Literal["commands", "pyautogui"]
LANGUAGES: tuple[LanguageName, ...] = get_args(LanguageName)


class Language(Protocol):
    """How actions are written and read."""

    @property
    def commands(self) -> Sequence[Command]:
        """The actions as data, for instructions and answer formats."""
        ...

    async def read(self, text: str, computer: Computer) -> Meaning:
        """Say what an action means; one that means nothing is a `RefusedError`."""
        ...

    def write(self, text: str) -> str:
        """Put an action in commands into this language."""
        ...


class Commands:
    """`click 640 360`."""

    def __init__(self, space: Space) -> None:
        self._space: Space = space
        self.commands: Sequence[Command] = desktop_commands(space)

    async def read(self, text: str, computer: Computer) -> Meaning:
        """Read a command."""
        return read_action(text, self._space, computer.screen)

    def write(self, text: str) -> str:
        """It is one already."""
        return text


class Pyautogui:
    """`pyautogui.click(640, 360)`; read with an allow-list and never executed."""

    commands: Sequence[Command] = (
        Command("done", "DONE", "say that the task is complete; ends the episode"),
        Command("fail", "FAIL", "say that the task cannot be done; ends the episode"),
        Command("wait", "WAIT", "let a second pass"),
        Command("answer", "ANSWER {text}", "answer a question; ends the episode"),
        Command(
            "python",
            "{code}",
            "Python code that calls pyautogui, and time.sleep if need be: "
            "pyautogui.click(640, 360), pyautogui.write('text'), pyautogui.hotkey('ctrl', 's')",
            is_multiline=True,
        ),
    )

    async def read(self, text: str, computer: Computer) -> Meaning:
        """Read code, or one of the words in capitals."""
        said = text.strip()
        if said in ("DONE", "FAIL"):
            return Ended("done" if said == "DONE" else "fail")
        if said.startswith("ANSWER "):
            return Ended("answer", said.removeprefix("ANSWER ").strip())
        code = "time.sleep(1)" if said == "WAIT" else text
        try:
            plan = read_code(code, computer.screen, await computer.pointer())
        except DialectError as error:
            raise RefusedError(f"Nothing was done: {error}.") from error
        if not plan.inputs:
            raise RefusedError("Your code does nothing: call a function of pyautogui.")
        return Performed(plan.inputs)

    def write(self, text: str) -> str:
        """Put a command into code."""
        call = to_call(desktop_commands("pixels"), text)
        given: dict[str, Any] = dict(call.arguments)
        if call.name in ("done", "fail"):
            return call.name.upper()
        if call.name == "answer":
            return f"ANSWER {given['text']}"
        return _CODE[call.name].format(**given, **_details(call.name, given))


_CODE = {
    "click": "pyautogui.click({x}, {y})",
    "double_click": "pyautogui.doubleClick({x}, {y})",
    "right_click": "pyautogui.rightClick({x}, {y})",
    "move": "pyautogui.moveTo({x}, {y})",
    "drag": "pyautogui.moveTo({x}, {y})\npyautogui.dragTo({to_x}, {to_y}, duration=0.3)",
    "type": "pyautogui.write({quoted})",
    "key": "pyautogui.hotkey({keys_quoted})",
    "hotkey": "pyautogui.hotkey({keys_quoted})",
    "scroll": "pyautogui.{function}({clicks}, {x}, {y})",
    "wait": "time.sleep({seconds})",
}


def _details(name: str, given: dict[str, Any]) -> dict[str, str]:
    """What code has and a command has not."""
    if name == "type":
        return {"quoted": repr(given["text"])}
    if name in ("key", "hotkey"):
        keys = str(given.get("key") or given["keys"]).split("+")
        return {"keys_quoted": ", ".join(repr(key) for key in keys)}
    if name == "scroll":
        is_upright = given["direction"] in ("up", "down")
        sign = "" if given["direction"] in ("up", "right") else "-"
        return {
            "function": "scroll" if is_upright else "hscroll",
            "clicks": f"{sign}{given['amount']}",
        }
    return {}


def make_language(name: LanguageName, space: Space) -> Language:
    """Make a language; pyautogui knows pixels alone."""
    return Commands(space) if name == "commands" else Pyautogui()
