"""ReAct: a `Thought:` line and an `Action:` line."""

from __future__ import annotations

import re
from collections.abc import Sequence

from practicum.agents.format import ActionFormat, Parsed, put_action, take_action
from practicum.core.commands import Command
from practicum.core.env import Decision
from practicum.core.message import Action

# Only at the start of a line: thoughts talk about "the next Action: …" too.
_ACTION = re.compile(r"^[ \t]*Action:", re.MULTILINE)
_THOUGHT = re.compile(r"^\s*Thought:\s?")


class ReactFormat(ActionFormat):
    """`Thought: why` and `Action: what`."""

    name = "react"
    shape = "Thought: <your reasoning>\nAction: <one action>"
    rule = "Each of your messages must hold one thought and exactly one action:"

    def write(self, decision: Decision, commands: Sequence[Command]) -> str:
        """Write a thought line and an action line."""
        thought = f"Thought: {decision.thought}\n" if decision.thought else ""
        return f"{thought}Action:{put_action(decision.action.text)}"

    def read(self, answer: str, commands: Sequence[Command]) -> Parsed:
        """Read the one `Action:`."""
        marks = list(_ACTION.finditer(answer))
        if not marks:
            return self.no_action()
        if len(marks) > 1:
            return self.several_actions(len(marks))
        action = take_action(answer[marks[0].end() :], commands)
        if not action:
            return self.no_action()
        thought = _THOUGHT.sub("", answer[: marks[0].start()]).strip()
        return Decision(Action(action), thought)
