"""Tools as text are what Qwen's own chat templates write."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from chat_templates import make_tokenizer_with
from policies.proxy.proxies import Script, Witness
from support import require

from practicum.policies.proxy.forms import chat
from practicum.policies.proxy.upstream import PolicyUpstream
from practicum.policies.rendering import Renderer

TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Says how the weather is, é.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
SECOND = {"type": "function", "function": {"name": "stop", "parameters": {}}}


def call(number: int, city: str) -> dict[str, Any]:
    function = {"name": "weather", "arguments": f'{{"city": "{city}"}}'}
    return {"id": f"c{number}", "type": "function", "function": function}


CONVERSATION: list[dict[str, Any]] = [
    {"role": "system", "content": "Report."},
    {"role": "user", "content": "How is it?"},
    {"role": "assistant", "content": "Let me see.", "tool_calls": [call(1, "Köln")]},
    {"role": "tool", "tool_call_id": "c1", "content": "rain"},
    {"role": "assistant", "content": "", "tool_calls": [call(2, "Bonn"), call(3, "Ulm")]},
    {"role": "tool", "tool_call_id": "c2", "content": "sun"},
    {"role": "tool", "tool_call_id": "c3", "content": "fog"},
]


@pytest.mark.parametrize("length", [2, 4, 7])
@pytest.mark.parametrize("family", ["qwen2_5", "qwen3", "qwen3_instruct_2507"])
async def test_the_prompt_is_the_templates_own(family: str, length: int) -> None:
    require("trl", "pip install 'practicum[dev]'")
    spec = find_spec("trl")
    assert spec is not None and spec.origin is not None
    template = (Path(spec.origin).parent / "chat_templates" / f"{family}.jinja").read_text()
    tokenizer = make_tokenizer_with(template, splits_like_llama=True)
    messages = CONVERSATION[:length]
    theirs = tokenizer.apply_chat_template(
        _with_objects(messages),
        tools=[TOOL, SECOND],
        add_generation_prompt=True,
        tokenize=True,
        return_dict=False,
    )

    renderer = Renderer(tokenizer)
    witness = Witness(Script(renderer, ["ok"]))
    ask = chat.read(json.dumps({"messages": messages, "tools": [TOOL, SECOND]}).encode())
    await PolicyUpstream(witness, renderer, "m").answer(ask, None)

    ours = witness.completions[0].prompt_token_ids
    assert tokenizer.decode(ours) == tokenizer.decode(theirs)
    assert list(ours or ()) == list(theirs)


def _with_objects(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Templates want the arguments of calls as objects."""
    changed = json.loads(json.dumps(messages))
    for message in changed:
        for one in message.get("tool_calls", ()):
            one["function"]["arguments"] = json.loads(one["function"]["arguments"])
    return changed
