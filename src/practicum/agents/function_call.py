"""JSON: one object with a thought, a function name and its arguments."""

from __future__ import annotations

import json
from collections.abc import Sequence

from practicum.agents.format import ActionFormat, Parsed
from practicum.agents.json_object import read_object
from practicum.core.commands import Call, Command, to_call, to_text
from practicum.core.env import Decision
from practicum.core.episode import FormatErrorKind
from practicum.core.message import Action

_KEYS = {"thought", "function_name", "arguments"}


class FunctionCallFormat(ActionFormat):
    """`{"thought": …, "function_name": …, "arguments": {…}}`."""

    name = "function_call"
    shape = '{"thought": "your reasoning", "function_name": "name", "arguments": {...}}'
    rule = "Answer with exactly one function call as a JSON object and nothing else:"
    shows_calls = True

    def write(self, decision: Decision, commands: Sequence[Command]) -> str:
        """Write the call as JSON."""
        call = to_call(commands, decision.action.text)
        thought = {"thought": decision.thought} if decision.thought else {}
        body = {**thought, "function_name": call.name, "arguments": dict(call.arguments)}
        return json.dumps(body, ensure_ascii=False)

    def read(self, answer: str, commands: Sequence[Command]) -> Parsed:
        """Read the one JSON object, fenced or bare."""
        start = answer.find("{")
        if start < 0:
            return self.no_action()
        try:
            body, end = read_object(answer, start)
        except (ValueError, RecursionError) as error:
            return self.bad_syntax(f"Your JSON could not be read ({error}).")
        if '"function_name"' in answer[end:]:
            return self.several_actions(1 + answer[end:].count('"function_name"'))
        if not isinstance(body, dict) or not {"function_name", "arguments"} <= body.keys() <= _KEYS:
            return self.bad_syntax("Your JSON must have function_name, arguments and a thought.")
        name, arguments, thought = body["function_name"], body["arguments"], body.get("thought", "")
        if not (isinstance(name, str) and isinstance(arguments, dict) and isinstance(thought, str)):
            return self.bad_syntax("function_name and thought are strings, arguments an object.")
        try:
            text = to_text(commands, Call(name, arguments))
        except ValueError as error:
            return self.error(FormatErrorKind.UNKNOWN_CALL, f"That call does not exist: {error}.")
        return Decision(Action(text), thought) if text.strip() else self.no_action()
