"""Anthropic's messages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from practicum.core.errors import PolicyError
from practicum.policies.proxy.conversation import (
    Answer,
    Ask,
    Picture,
    RefusedError,
    Said,
    Tool,
    ToolCall,
    merge_answers,
)
from practicum.policies.proxy.forms.reading import (
    Form,
    Open,
    Reply,
    Strict,
    decode_image,
    event,
    read_body,
    sort_options,
)

_LABELS = ("metadata", "service_tier")
_IDLE: dict[str, Sequence[Any]] = {"thinking": ({"type": "disabled"},)}


class _Hinted(Strict):
    cache_control: Any = None
    """Where a server may cache: it does not bear on the answer."""


class _Text(_Hinted):
    type: Literal["text"]
    text: str
    citations: None = None


class _Source(Strict):
    type: Literal["base64"]
    media_type: str
    data: str


class _Image(_Hinted):
    type: Literal["image"]
    source: _Source


class _Use(_Hinted):
    type: Literal["tool_use"]
    id: str
    name: str
    input: dict[str, Any]
    caller: Any = None
    """Who called, as the SDK hands it out: the model."""


class _Result(_Hinted):
    type: Literal["tool_result"]
    tool_use_id: str
    content: str | list[Annotated[_Text | _Image, Field(discriminator="type")]] | None = None
    is_error: bool | None = None


_Block = Annotated[_Text | _Image | _Use | _Result, Field(discriminator="type")]


class _Message(Strict):
    role: Literal["user", "assistant"]
    content: str | list[_Block]


class _Tool(_Hinted):
    name: str
    description: str | None = None
    input_schema: dict[str, Any]
    type: Literal["custom"] | None = None
    strict: bool | None = None


class _Choice(Strict):
    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class _Body(Open):
    messages: list[_Message] = Field(min_length=1)
    model: str = ""
    max_tokens: int = Field(ge=1)
    system: str | list[_Text] | None = None
    tools: list[_Tool] | None = None
    tool_choice: _Choice | None = None
    temperature: float | None = Field(None, ge=0, le=1)
    top_p: float | None = Field(None, gt=0, le=1)
    stop_sequences: list[str] | None = None
    stream: bool | None = None


def read(text: bytes) -> Ask:
    """Read a request."""
    body = read_body(_Body, text)
    system = body.system if isinstance(body.system, str) else _texts(body.system or ())
    messages = [Said("system", (system,))] if system else []
    for number, message in enumerate(body.messages):
        messages += _said(message, f"messages.{number}")
    if not all(body.stop_sequences or ()):
        raise RefusedError("stop_sequences: an empty text stops everything", param="stop_sequences")
    options, labels = sort_options(body.further(), _LABELS, _IDLE)
    choice = body.tool_choice
    if choice is not None and choice.type in ("any", "tool"):
        options["tool_choice"] = (
            "required"
            if choice.type == "any"
            else {"type": "function", "function": {"name": choice.name}}
        )
    return Ask(
        messages=merge_answers(messages),
        tools=tuple(
            Tool(tool.name, tool.description, tool.input_schema, tool.strict)
            for tool in body.tools or ()
        ),
        temperature=1.0 if body.temperature is None else body.temperature,
        top_p=1.0 if body.top_p is None else body.top_p,
        max_tokens=body.max_tokens,
        stop=tuple(body.stop_sequences or ()),
        uses_tools=choice is None or choice.type != "none",
        is_parallel=choice is None or not choice.disable_parallel_tool_use,
        is_streamed=bool(body.stream),
        options=_refuse_untranslatable(options),
        labels=labels | ({"model": body.model} if body.model else {}),
    )


def write(reply: Reply) -> dict[str, Any]:
    """Write an answer as one message."""
    [answer] = reply.answers
    return {
        "id": reply.id,
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": _blocks(answer),
        "stop_reason": _reason(reply),
        "stop_sequence": answer.stopped_at,
        "usage": {"input_tokens": reply.num_prompt, "output_tokens": reply.num_sampled},
    }


def stream(reply: Reply) -> Iterator[str]:
    """Write an answer as events."""
    whole = write(reply)

    def send(kind: str, **fields: Any) -> str:
        return event({"type": kind, **fields}, kind)

    usage = {**whole["usage"], "output_tokens": 0}
    begun = {**whole, "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    yield send("message_start", message=begun)
    for index, block in enumerate(whole["content"]):
        is_text = block["type"] == "text"
        empty = {**block, "text": ""} if is_text else {**block, "input": {}}
        yield send("content_block_start", index=index, content_block=empty)
        delta = (
            {"type": "text_delta", "text": block["text"]}
            if is_text
            else {
                "type": "input_json_delta",
                "partial_json": json.dumps(block["input"], ensure_ascii=False),
            }
        )
        yield send("content_block_delta", index=index, delta=delta)
        yield send("content_block_stop", index=index)
    ending = {name: whole[name] for name in ("stop_reason", "stop_sequence")}
    sampled = {"output_tokens": whole["usage"]["output_tokens"]}
    yield send("message_delta", delta=ending, usage=sampled)
    yield send("message_stop")


def write_error(refusal: RefusedError) -> dict[str, Any]:
    """An error as Anthropic's SDK reads it."""
    kinds = {401: "authentication_error", 429: "rate_limit_error", 404: "not_found_error"}
    kind = "api_error" if refusal.status >= 500 else "invalid_request_error"
    return {
        "type": "error",
        "error": {
            "type": kinds.get(refusal.status, kind),
            "message": str(refusal),
            "code": refusal.kind,
        },
    }


FORM = Form("msg_", read, write, stream, write_error)


def _said(message: _Message, where: str) -> Iterator[Said]:
    """A message; results of tools, which come as the user's, become messages of their own."""
    if isinstance(message.content, str):
        yield Said(message.role, (message.content,) if message.content else ())
        return
    parts: list[str | Picture] = []
    calls: list[ToolCall] = []
    for block in message.content:
        if isinstance(block, _Result):
            if parts:
                yield Said(message.role, tuple(parts))
                parts = []
            content = block.content or ()
            inner = (content,) if isinstance(content, str) else _parts(content, where)
            if block.is_error:
                inner = ("Error:", *inner)
            yield Said("tool", inner, call_id=block.tool_use_id)
        elif isinstance(block, _Use):
            arguments = json.dumps(block.input, ensure_ascii=False)
            calls.append(ToolCall(block.id, block.name, arguments))
        else:
            parts += _parts([block], where)
    if parts or calls or message.role == "assistant":
        yield Said(message.role, tuple(parts), tuple(calls))


def _parts(blocks: Sequence[_Text | _Image], where: str) -> tuple[str | Picture, ...]:
    return tuple(
        block.text
        if isinstance(block, _Text)
        else Picture(decode_image(block.source.data, block.source.media_type, f"{where}.source"))
        for block in blocks
    )


def _texts(blocks: Sequence[_Text]) -> str:
    return "\n".join(block.text for block in blocks)


def _refuse_untranslatable(options: dict[str, Any]) -> dict[str, Any]:
    for name in options:
        if name not in ("tool_choice", "top_k"):
            raise RefusedError(f"{name}: the proxy has no way to do that; leave it out", param=name)
    return options


def _blocks(answer: Answer) -> list[dict[str, Any]]:
    said = answer.said
    blocks: list[dict[str, Any]] = []
    if said.text:
        blocks.append({"type": "text", "text": said.text})
    return blocks + [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": _arguments(call)}
        for call in said.calls
    ]


def _arguments(call: ToolCall) -> dict[str, Any]:
    try:
        arguments = json.loads(call.arguments)
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):
        raise PolicyError(
            f"the upstream server sent a call of {call.name} whose arguments are no JSON object",
            kind="bad-reply",
        )
    return arguments


def _reason(reply: Reply) -> str:
    [answer] = reply.answers
    if answer.stopped_at is not None and answer.ending == "stop":
        return "stop_sequence"
    return {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}[answer.ending]
