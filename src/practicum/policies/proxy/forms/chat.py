"""OpenAI's chat completions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field

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
from practicum.policies.proxy.endpoint import write_tool_calls
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

LABELS = (
    "user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key",
    "prompt_cache_retention",
)  # fmt: skip
_IDLE: dict[str, tuple[Any, ...]] = {
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "top_logprobs": (0,),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "tool_choice": (None, "auto", "none"),
}
"""Values that ask for what happens anyway."""


class _Text(Strict):
    type: Literal["text"]
    text: str


class _ImageUrl(Strict):
    url: str
    detail: str | None = None


class _Image(Strict):
    type: Literal["image_url"]
    image_url: _ImageUrl


_Parts = list[Annotated[_Text | _Image, Field(discriminator="type")]]


class _Function(Strict):
    name: str
    arguments: str
    parsed_arguments: Any = None
    """Added by the SDK's helpers to what they hand out: the arguments once more."""


class _Call(Strict):
    id: str
    type: Literal["function"] = "function"
    function: _Function
    index: int | None = None


class _Message(Open):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | _Parts | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None


class _ToolFunction(Strict):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class _Tool(Strict):
    type: Literal["function"]
    function: _ToolFunction


class _StreamOptions(Strict):
    include_usage: bool = False
    include_obfuscation: bool = False


class _Body(Open):
    messages: list[_Message] = Field(min_length=1)
    model: str = ""
    tools: list[_Tool] | None = None
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, gt=0, le=1)
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    n: int | None = Field(None, ge=1, le=128)
    seed: int | None = None
    stop: str | list[str] | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    logprobs: bool | None = None
    return_token_ids: bool | None = None


def read(text: bytes) -> Ask:
    """Read a request."""
    body = read_body(_Body, text)
    limits = {body.max_tokens, body.max_completion_tokens} - {None}
    if len(limits) > 1:
        raise RefusedError(
            "max_tokens and max_completion_tokens differ: send one", param="max_tokens"
        )
    stops = [body.stop] if isinstance(body.stop, str) else body.stop or []
    if not all(stops):
        raise RefusedError("stop: an empty text stops everything", param="stop")
    options, labels = sort_options(
        {**body.further(), "tool_choice": body.tool_choice}, LABELS, _IDLE
    )
    return Ask(
        messages=merge_answers([_said(n, m) for n, m in enumerate(body.messages)]),
        tools=tuple(_tool(tool) for tool in body.tools or ()),
        temperature=1.0 if body.temperature is None else body.temperature,
        top_p=1.0 if body.top_p is None else body.top_p,
        max_tokens=limits.pop() if limits else None,
        seed=body.seed,
        stop=tuple(stops),
        num_answers=body.n or 1,
        uses_tools=body.tool_choice != "none",
        is_parallel=body.parallel_tool_calls is not False,
        wants_logprobs=bool(body.logprobs),
        wants_token_ids=bool(body.return_token_ids),
        is_streamed=bool(body.stream),
        wants_usage=body.stream_options is not None and body.stream_options.include_usage,
        options=options,
        labels=labels | ({"model": body.model} if body.model else {}),
    )


def write(reply: Reply) -> dict[str, Any]:
    """Write answers as one completion."""
    body: dict[str, Any] = {
        **_head(reply, "chat.completion"),
        "choices": [_choice(reply, n) for n in range(len(reply.answers))],
        "usage": _usage(reply),
    }
    prompt_ids = reply.answers[0].completion.prompt_token_ids
    if reply.ask.wants_token_ids and prompt_ids is not None:
        body["prompt_token_ids"] = prompt_ids
    return body


def stream(reply: Reply) -> Iterator[str]:
    """Write answers as chunks."""
    head = _head(reply, "chat.completion.chunk")
    for index in range(len(reply.answers)):
        choice = _choice(reply, index)
        message = choice.pop("message")
        ending = choice.pop("finish_reason")
        for number, call in enumerate(message.get("tool_calls", ())):
            call["index"] = number
        first = {
            "index": index,
            "delta": {"role": "assistant", "content": ""},
            "finish_reason": None,
        }
        yield event({**head, "choices": [first]})
        delta = {k: v for k, v in message.items() if k != "role" and v is not None}
        yield event({**head, "choices": [{**choice, "delta": delta, "finish_reason": None}]})
        last = {"index": index, "delta": {}, "finish_reason": ending}
        yield event({**head, "choices": [last]})
    if reply.ask.wants_usage:
        yield event({**head, "choices": [], "usage": _usage(reply)})
    yield event("[DONE]")


FORM = Form("chatcmpl-", read, write, stream, openai_error)


def _said(number: int, message: _Message) -> Said:
    speaker = "system" if message.role == "developer" else message.role
    where = f"messages.{number}"
    if (speaker == "tool") != (message.tool_call_id is not None):
        raise RefusedError(
            f"{where}: a message of a tool, and no other, has a tool_call_id",
            param=f"{where}.tool_call_id",
        )
    if message.tool_calls and speaker != "assistant":
        raise RefusedError(f"{where}: only the assistant calls tools", param=f"{where}.tool_calls")
    content = message.content
    if isinstance(content, str) or content is None:
        parts: tuple[str | Picture, ...] = (content,) if content else ()
    else:
        parts = tuple(_part(part, where) for part in content)
    calls = tuple(
        ToolCall(call.id, call.function.name, call.function.arguments)
        for call in message.tool_calls or ()
    )
    return Said(speaker, parts, calls, message.tool_call_id, message.further())


def _part(part: _Text | _Image, where: str) -> str | Picture:
    if isinstance(part, _Text):
        return part.text
    return Picture(read_image(part.image_url.url, f"{where}.image_url"), part.image_url.detail)


def _tool(tool: _Tool) -> Tool:
    given = tool.function
    return Tool(given.name, given.description, given.parameters, given.strict)


def _head(reply: Reply, kind: str) -> dict[str, Any]:
    return {"id": reply.id, "object": kind, "created": reply.created_s, "model": reply.model}


def _choice(reply: Reply, index: int) -> dict[str, Any]:
    answer = reply.answers[index]
    message: dict[str, Any] = {
        "role": "assistant",
        "content": answer.said.text if answer.said.parts or not answer.said.calls else None,
        "refusal": None,
        **answer.said.extras,
    }
    if answer.said.calls:
        message["tool_calls"] = write_tool_calls(answer.said)
    choice: dict[str, Any] = {
        "index": index,
        "message": message,
        "finish_reason": answer.ending,
        "logprobs": _logprobs(answer),
    }
    if reply.ask.wants_token_ids and answer.completion.token_ids is not None:
        choice["token_ids"] = answer.completion.token_ids
    return choice


def _logprobs(answer: Answer) -> dict[str, Any] | None:
    if answer.tokens is None:
        return None
    pairs = zip(answer.tokens, answer.completion.logprobs or (), strict=True)
    content = [
        {"token": text, "logprob": value, "bytes": list(text.encode()), "top_logprobs": []}
        for text, value in pairs
    ]
    return {"content": content, "refusal": None}


def _usage(reply: Reply) -> dict[str, int]:
    return {
        "prompt_tokens": reply.num_prompt,
        "completion_tokens": reply.num_sampled,
        "total_tokens": reply.num_prompt + reply.num_sampled,
    }
