"""JSON, flat: one object with the action and its arguments side by side.

The form desktop agents are usually asked for, `{"action": "click", "x": 640, "y": 360}`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from practicum.agents.format import ActionFormat, Parsed
from practicum.agents.json_object import read_object
from practicum.core.commands import Call, Command, to_call, to_text
from practicum.core.env import Decision
from practicum.core.episode import FormatErrorKind
from practicum.core.message import Action

_RESERVED = ("action", "thought")


class JsonFormat(ActionFormat):
    """`{"thought": …, "action": …, …its arguments}`."""

    name = "json"
    shape = '{"thought": "your reasoning", "action": "name", "argument": ...}'
    rule = "Answer with exactly one JSON object and nothing else, the arguments beside the action:"
    shows_calls = True

    def write(self, decision: Decision, commands: Sequence[Command]) -> str:
        """Write the action as JSON."""
        call = to_call(commands, decision.action.text)
        thought = {"thought": decision.thought} if decision.thought else {}
        return json.dumps({**thought, "action": call.name, **call.arguments}, ensure_ascii=False)

    def read(self, answer: str, commands: Sequence[Command]) -> Parsed:
        """Read the one JSON object, fenced or bare."""
        start = answer.find("{")
        if start < 0:
            return self.no_action()
        try:
            body, end = read_object(answer, start)
        except (ValueError, RecursionError) as error:
            return self.bad_syntax(f"Your JSON could not be read ({error}).")
        if '"action"' in answer[end:]:
            return self.several_actions(1 + answer[end:].count('"action"'))
        if "action" not in body:
            return self.bad_syntax("Your JSON must have an action.")
        name, thought = body["action"], body.get("thought", "")
        if not (isinstance(name, str) and isinstance(thought, str)):
            return self.bad_syntax("action and thought are strings.")
        arguments = {key: value for key, value in body.items() if key not in _RESERVED}
        try:
            text = to_text(commands, Call(name, arguments))
        except ValueError as error:
            return self.error(FormatErrorKind.UNKNOWN_CALL, f"That action does not exist: {error}.")
        return Decision(Action(text), thought) if text.strip() else self.no_action()
