"""Tools, calls and results as text, the way Hermes and Qwen models were trained on.

Written as text they fit every chat template, and under Qwen's own template the prompt is the one
that the template writes.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Sequence
from typing import Any

from practicum.policies.proxy.conversation import Tool, ToolCall

CALL_END = "</tool_call>"
_CALL = re.compile(r"<tool_call>\s*(.*?)\s*</tool_call>", re.DOTALL)


def describe_tools(tools: Sequence[Tool]) -> str:
    """What the system message says about the tools."""
    listed = "\n".join(json.dumps(tool.to_json(), ensure_ascii=False) for tool in tools)
    return (
        "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
        "You are provided with function signatures within <tools></tools> XML tags:\n"
        f"<tools>\n{listed}\n</tools>\n\n"
        "For each function call, return a json object with function name and arguments within "
        '<tool_call></tool_call> XML tags:\n<tool_call>\n{"name": <function-name>, "arguments": '
        "<args-json-object>}\n</tool_call>"
    )


def write_result(text: str) -> str:
    """Write the result of a call."""
    return f"<tool_response>\n{text}\n</tool_response>"


def write_answer(text: str, calls: Sequence[ToolCall]) -> str:
    """Write an answer that was not sampled here, with its calls."""
    written = [f"<tool_call>\n{_call_json(call)}\n</tool_call>" for call in calls]
    return "\n".join([text, *written] if text else written)


def read_calls(text: str) -> tuple[str, tuple[ToolCall, ...]]:
    """The text before the first call, and the calls; text that holds none comes back as it is.

    What is not a call (no JSON, no name) makes the whole answer text: the agent sees what the
    model wrote, and nothing is mended.
    """
    found = list(_CALL.finditer(text))
    calls = [_read_call(mark[1]) for mark in found]
    if not calls or any(call is None for call in calls):
        return text, ()
    between = _CALL.sub("", text[found[0].start() :])
    if between.strip():
        return text, ()
    return text[: found[0].start()].strip(), tuple(call for call in calls if call is not None)


def _read_call(body: str) -> ToolCall | None:
    try:
        value: Any = json.loads(body)
    except ValueError:
        return None
    if not isinstance(value, dict) or value.keys() != {"name", "arguments"}:
        return None
    name, arguments = value["name"], value["arguments"]
    if not isinstance(name, str) or not isinstance(arguments, dict):
        return None
    text = json.dumps(arguments, ensure_ascii=False)
    return ToolCall(f"call_{secrets.token_hex(12)}", name, text)


def _call_json(call: ToolCall) -> str:
    try:
        arguments = json.loads(call.arguments)
    except ValueError:
        arguments = call.arguments
    return json.dumps({"name": call.name, "arguments": arguments}, ensure_ascii=False)
