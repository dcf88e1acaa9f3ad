"""Function calls as JSON: a thought, the function's name and its arguments as an object."""

from __future__ import annotations

from typing import Any

from practicum.agents.json_object import JsonObjectFormat
from practicum.core.commands import Call


class FunctionCallFormat(JsonObjectFormat):
    """`{"thought": …, "function_name": …, "arguments": {…}}`."""

    name = "function_call"
    key = "function_name"
    shape = '{"thought": "your reasoning", "function_name": "name", "arguments": {...}}'
    rule = "Answer with exactly one function call as a JSON object and nothing else:"

    def body_of(self, call: Call) -> dict[str, Any]:
        """Name and arguments."""
        return {"function_name": call.name, "arguments": dict(call.arguments)}

    def call_of(self, body: dict[str, Any]) -> Call | str:
        """Both must be there, and nothing else."""
        if body.keys() != {"function_name", "arguments"}:
            return "Your JSON must have function_name, arguments and a thought."
        name, arguments = body["function_name"], body["arguments"]
        if not (isinstance(name, str) and isinstance(arguments, dict)):
            return "function_name is a string, arguments an object."
        return Call(name, arguments)
