"""Double brackets: `Action: [[ what ]]`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from practicum.agents.format import ActionFormat, Parsed
from practicum.core.commands import Command
from practicum.core.env import Decision
from practicum.core.message import Action

_ACTION = re.compile(r"\[\[(.*?)\]\]", re.DOTALL)
_MARKER = re.compile(r"\s*(?:Action:\s*)?$")
_THOUGHT = re.compile(r"^\s*Thought:\s?")


class BracketFormat(ActionFormat):
    """`Thought: why` and `Action: [[ what ]]`."""

    name = "bracket"
    shape = "Thought: <your reasoning>\nAction: [[ one action ]]"
    rule = "Write your reasoning, then exactly one action in double brackets:"

    def write(self, decision: Decision, commands: Sequence[Command]) -> str:
        """Write a thought line and the action in brackets."""
        thought = f"Thought: {decision.thought}\n" if decision.thought else ""
        return f"{thought}Action: [[ {decision.action.text} ]]"

    def read(self, answer: str, commands: Sequence[Command]) -> Parsed:
        """Read the one pair of double brackets."""
        marks = list(_ACTION.finditer(answer))
        if not marks:
            if "[[" in answer:
                return self.bad_syntax("Your double brackets were not closed.")
            return self.no_action()
        if len(marks) > 1:
            return self.several_actions(len(marks))
        action = marks[0][1].strip()
        if not action:
            return self.no_action()
        thought = _MARKER.sub("", _THOUGHT.sub("", answer[: marks[0].start()]))
        return Decision(Action(action), thought.strip())
