"""JSON, flat: one object with the action and its arguments side by side.

The form desktop agents are usually asked for, `{"action": "click", "x": 640, "y": 360}`.
"""

from __future__ import annotations

from typing import Any

from practicum.agents.json_object import JsonObjectFormat
from practicum.core.commands import Call


class JsonFormat(JsonObjectFormat):
    """`{"thought": …, "action": …, …its arguments}`."""

    name = "json"
    key = "action"
    shape = '{"thought": "your reasoning", "action": "name", "argument": ...}'
    rule = "Answer with exactly one JSON object and nothing else, the arguments beside the action:"

    def body_of(self, call: Call) -> dict[str, Any]:
        """The action and its arguments."""
        return {"action": call.name, **call.arguments}

    def call_of(self, body: dict[str, Any]) -> Call | str:
        """All that is not the action is an argument of it."""
        name = body.pop("action", None)
        return Call(name, body) if isinstance(name, str) else "Your JSON must have an action."
