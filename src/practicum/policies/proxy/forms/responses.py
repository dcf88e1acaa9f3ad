"""OpenAI's responses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from typing import Annotated, Any, Literal

from pydantic import Field

from practicum.policies.proxy.conversation import (
    Answer,
    Ask,
    Picture,
    RefusedError,
    Said,
    Speaker,
    Tool,
    ToolCall,
    merge_answers,
)
from practicum.policies.proxy.forms.chat import LABELS
from practicum.policies.proxy.forms.reading import (
    Form,
    Open,
    Reply,
    Strict,
    event,
    openai_error,
    read_body,
    read_image,
    sort_options,
)

_IDLE: dict[str, tuple[Any, ...]] = {
    "top_logprobs": (0,),
    "text": ({"format": {"type": "text"}},),
    "truncation": ("disabled",),
    "background": (False,),
    "include": (["reasoning.encrypted_content"],),  # there is none to include
    "tool_choice": (None, "auto", "none"),
}


class _Text(Open):
    type: Literal["input_text", "output_text"]
    text: str


class _Image(Strict):
    type: Literal["input_image"]
    image_url: str
    detail: str | None = None


_Parts = list[Annotated[_Text | _Image, Field(discriminator="type")]]


class _Message(Open):
    type: Literal["message"] = "message"
    role: Literal["system", "developer", "user", "assistant"]
    content: str | _Parts
    id: str | None = None
    status: str | None = None


class _Call(Strict):
    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: str
    id: str | None = None
    status: str | None = None


class _Result(Strict):
    type: Literal["function_call_output"]
    call_id: str
    output: str | _Parts
    id: str | None = None
    status: str | None = None


class _Tool(Strict):
    type: Literal["function"]
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class _Body(Open):
    input: str | list[dict[str, Any]]
    model: str = ""
    instructions: str | None = None
    tools: list[_Tool] | None = None
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, gt=0, le=1)
    max_output_tokens: int | None = Field(None, ge=1)
    stream: bool | None = None
    stream_options: dict[str, Any] | None = None


_ITEMS: dict[str, type[_Message | _Call | _Result]] = {
    "message": _Message,
    "function_call": _Call,
    "function_call_output": _Result,
}


def read(text: bytes) -> Ask:
    """Read a request."""
    body = read_body(_Body, text)
    messages = [Said("system", (body.instructions,))] if body.instructions else []
    if isinstance(body.input, str):
        messages.append(Said("user", (body.input,)))
    else:
        messages += [_said(n, item) for n, item in enumerate(body.input)]
    options, labels = sort_options(
        {**body.further(), "tool_choice": body.tool_choice}, LABELS, _IDLE
    )
    return Ask(
        messages=merge_answers(messages),
        tools=tuple(
            Tool(tool.name, tool.description, tool.parameters, tool.strict)
            for tool in body.tools or ()
        ),
        temperature=1.0 if body.temperature is None else body.temperature,
        top_p=1.0 if body.top_p is None else body.top_p,
        max_tokens=body.max_output_tokens,
        uses_tools=body.tool_choice != "none",
        is_parallel=body.parallel_tool_calls is not False,
        is_streamed=bool(body.stream),
        options=_refuse_untranslatable(options),
        labels=labels | ({"model": body.model} if body.model else {}),
    )


def write(reply: Reply) -> dict[str, Any]:
    """Write an answer as one response."""
    [answer] = reply.answers
    is_cut = answer.ending == "length"
    return {
        **_head(reply),
        "status": "incomplete" if is_cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
        "output": _items(reply.id, answer),
        "usage": {
            "input_tokens": reply.num_prompt,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": reply.num_sampled,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": reply.num_prompt + reply.num_sampled,
        },
    }


def stream(reply: Reply) -> Iterator[str]:
    """Write an answer as events."""
    whole = write(reply)
    numbers = count()

    def send(kind: str, **fields: Any) -> str:
        return event({"type": kind, "sequence_number": next(numbers), **fields}, kind)

    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    yield send("response.created", response=begun)
    yield send("response.in_progress", response=begun)
    for index, item in enumerate(whole["output"]):
        place = {"output_index": index, "item_id": item["id"]}
        is_call = item["type"] == "function_call"
        empty = {
            **item,
            "status": "in_progress",
            **({"arguments": ""} if is_call else {"content": []}),
        }
        yield send("response.output_item.added", output_index=index, item=empty)
        if is_call:
            arguments = item["arguments"]
            yield send("response.function_call_arguments.delta", **place, delta=arguments)
            yield send(
                "response.function_call_arguments.done",
                **place,
                name=item["name"],
                arguments=arguments,
            )
        else:
            [part] = item["content"]
            place["content_index"] = 0
            yield send("response.content_part.added", **place, part={**part, "text": ""})
            yield send("response.output_text.delta", **place, delta=part["text"], logprobs=[])
            yield send("response.output_text.done", **place, text=part["text"], logprobs=[])
            yield send("response.content_part.done", **place, part=part)
        yield send("response.output_item.done", output_index=index, item=item)
    kind = "incomplete" if whole["status"] == "incomplete" else "completed"
    yield send(f"response.{kind}", response=whole)


FORM = Form("resp_", read, write, stream, openai_error)


def _said(number: int, value: dict[str, Any]) -> Said:
    where = f"input.{number}"
    kind = value.get("type", "message")
    if kind not in _ITEMS:
        raise RefusedError(
            f"{where}: an item of type {kind!r} cannot be read; these can: {', '.join(_ITEMS)}",
            param=where,
        )
    item = read_body(_ITEMS[kind], json.dumps(value).encode(), where=where)
    if isinstance(item, _Call):
        return Said("assistant", (), (ToolCall(item.call_id, item.name, item.arguments),))
    if isinstance(item, _Result):
        return Said("tool", _parts(item.output, where), call_id=item.call_id)
    assert isinstance(item, _Message)
    speaker: Speaker = "system" if item.role == "developer" else item.role
    return Said(speaker, _parts(item.content, where), extras=item.further())


def _parts(content: str | _Parts, where: str) -> tuple[str | Picture, ...]:
    if isinstance(content, str):
        return (content,) if content else ()
    return tuple(
        part.text
        if isinstance(part, _Text)
        else Picture(read_image(part.image_url, f"{where}.image_url"), part.detail)
        for part in content
    )


def _refuse_untranslatable(options: dict[str, Any]) -> dict[str, Any]:
    """Chat servers know other options than this API has; those both have keep their names."""
    for name in options:
        if name != "tool_choice":
            raise RefusedError(f"{name}: the proxy has no way to do that; leave it out", param=name)
    choice = options.get("tool_choice")
    if isinstance(choice, dict) and choice.get("type") == "function":
        return {"tool_choice": {"type": "function", "function": {"name": choice.get("name")}}}
    return options


def _head(reply: Reply) -> dict[str, Any]:
    ask = reply.ask
    return {
        "id": reply.id,
        "object": "response",
        "created_at": reply.created_s,
        "model": reply.model,
        "error": None,
        "metadata": ask.labels.get("metadata", {}),
        "parallel_tool_calls": ask.is_parallel,
        "temperature": ask.temperature,
        "top_p": ask.top_p,
        "max_output_tokens": ask.max_tokens,
        "tool_choice": ask.options.get("tool_choice", "auto" if ask.uses_tools else "none"),
        "tools": [
            {"type": "function", "strict": tool.is_strict, **tool.to_json()["function"]}
            for tool in ask.tools
        ],
        "text": {"format": {"type": "text"}},
        "truncation": "disabled",
    }


def _items(reply_id: str, answer: Answer) -> list[dict[str, Any]]:
    said, end = answer.said, reply_id.removeprefix("resp_")
    items: list[dict[str, Any]] = []
    if said.parts or not said.calls:
        text = {"type": "output_text", "text": said.text, "annotations": [], "logprobs": []}
        items.append(
            {
                "id": f"msg_{end}",
                "type": "message",
                "role": "assistant",
                "status": "incomplete" if answer.ending == "length" else "completed",
                "content": [text],
            }
        )
    items += [
        {
            "id": f"fc_{end}_{number}",
            "type": "function_call",
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments,
            "status": "completed",
        }
        for number, call in enumerate(said.calls)
    ]
    return items
