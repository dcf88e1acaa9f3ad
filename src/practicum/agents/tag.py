"""Tags: reasoning in `<think>`, the action in `<action>`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from practicum.agents.format import ActionFormat, Parsed
from practicum.core.commands import Command
from practicum.core.env import Decision
from practicum.core.message import Action

_ACTION = re.compile(r"<action>(.*?)</action>", re.DOTALL)


class TagFormat(ActionFormat):
    """`<think>why</think>` and `<action>what</action>`."""

    name = "tag"
    shape = "<think>your reasoning</think>\n<action>one action</action>"
    rule = "Put your reasoning and exactly one action into tags:"

    def write(self, decision: Decision, commands: Sequence[Command]) -> str:
        """Write both tags."""
        thought = f"<think>{decision.thought}</think>\n" if decision.thought else ""
        return f"{thought}<action>{decision.action.text}</action>"

    def read(self, answer: str, commands: Sequence[Command]) -> Parsed:
        """Read the one closed `<action>` tag."""
        actions = [text.strip() for text in _ACTION.findall(answer)]
        if answer.count("<action>") > len(actions):
            return self.bad_syntax("Your <action> tag was not closed.")
        if len(actions) > 1:
            return self.several_actions(len(actions))
        if not actions or not actions[0]:
            return self.no_action()
        return Decision(Action(actions[0]), _ACTION.split(answer)[0].strip())
