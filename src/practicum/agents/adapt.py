"""ADaPT: lines that start with `>`, thoughts among them marked `think:`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from practicum.agents.format import ActionFormat, Parsed, put_action, take_action
from practicum.core.commands import Command
from practicum.core.env import Decision
from practicum.core.message import Action

_ENTRY = re.compile(r"^[ \t]*>", re.MULTILINE)
_THINK = re.compile(r"\s*think:\s?", re.IGNORECASE)


class AdaptFormat(ActionFormat):
    """`> think: why` and `> what`."""

    name = "adapt"
    shape = "> think: <your reasoning>\n> <one action>"
    rule = "Start each line of yours with '>'. Think first, then give exactly one action:"

    def write(self, decision: Decision, commands: Sequence[Command]) -> str:
        """Write a think line and an action line."""
        thought = f"> think: {decision.thought}\n" if decision.thought else ""
        return f"{thought}>{put_action(decision.action.text)}"

    def read(self, answer: str, commands: Sequence[Command]) -> Parsed:
        """Read the one line that is no thought."""
        thoughts: list[str] = []
        actions: list[str] = []
        marks = [*_ENTRY.finditer(answer)]
        ends = [*(mark.start() for mark in marks[1:]), len(answer)]
        for mark, end in zip(marks, ends, strict=False):
            entry = answer[mark.end() : end]
            if think := _THINK.match(entry):
                thoughts.append(entry[think.end() :].strip())
            else:
                actions.append(take_action(entry, commands))
        actions = [action for action in actions if action]
        if not actions:
            return self.no_action()
        if len(actions) > 1:
            return self.several_actions(len(actions))
        return Decision(Action(actions[0]), "\n".join(thoughts))
