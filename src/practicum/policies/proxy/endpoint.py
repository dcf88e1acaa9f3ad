"""An upstream chat server: requests are passed on whole, answers are read with their ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import openai
from openai.types.chat import ChatCompletion
from openai.types.chat.chat_completion import Choice

from practicum.core.episode import Completion
from practicum.core.errors import PolicyError
from practicum.policies.openai_endpoint import Endpoint, OpenAIPolicy, image_url, read_choice
from practicum.policies.proxy.conversation import Answer, Ask, Ending, Picture, RefusedError, Said
from practicum.policies.proxy.conversation import ToolCall as Call
from practicum.policies.proxy.upstream import Known, context_is_full

_OWN_FIELDS = ("role", "content", "tool_calls", "refusal", "annotations", "audio", "function_call")


class EndpointUpstream:
    """A model behind an OpenAI-compatible server."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.model = endpoint.model
        self._version = 0
        """What a trainer said last: the server does not tell."""
        self._policy = OpenAIPolicy(endpoint)

    async def answer(self, ask: Ask, known: Known | None) -> Sequence[Answer]:
        """Pass a request on; the server tokenises, so what is known does not help it."""
        del known
        version = self._version
        try:
            reply = await self._policy.ask(write_request(ask))
        except PolicyError as error:
            cause = error.__cause__
            if isinstance(cause, openai.BadRequestError | openai.UnprocessableEntityError):
                raise RefusedError(str(error), kind="upstream-refused") from error
            raise
        if reply is None:
            raise context_is_full()
        return [_read(reply, choice, version, ask) for choice in reply.choices]

    def set_version(self, version: int) -> None:
        """Answers asked for from now on are those of new weights."""
        self._version = version

    async def aclose(self) -> None:
        """Close the connections."""
        await self._policy.aclose()


def write_request(ask: Ask) -> dict[str, Any]:
    """A request as chat completions take it, without model and stream."""
    request: dict[str, Any] = {
        "messages": [write_message(said) for said in ask.messages],
        "temperature": ask.temperature,
        "top_p": ask.top_p,
        **ask.options,
    }
    if ask.tools:
        request["tools"] = [_with_strict(tool.to_json(), tool.is_strict) for tool in ask.tools]
        if not ask.uses_tools:
            request["tool_choice"] = "none"
        if not ask.is_parallel:
            request["parallel_tool_calls"] = False
    optional: dict[str, Any] = {
        "max_tokens": ask.max_tokens,
        "seed": ask.seed,
        "stop": list(ask.stop) or None,
        "n": ask.num_answers if ask.num_answers > 1 else None,
        "logprobs": ask.wants_logprobs or None,
    }
    return request | {name: value for name, value in optional.items() if value is not None}


def write_message(said: Said) -> dict[str, Any]:
    """A message as chat completions take it."""
    message: dict[str, Any] = {"role": said.speaker, "content": _content(said), **said.extras}
    if said.calls:
        message["tool_calls"] = write_tool_calls(said)
    if said.call_id is not None:
        message["tool_call_id"] = said.call_id
    return message


def write_tool_calls(said: Said) -> list[dict[str, Any]]:
    """The calls of an answer as chat completions write them."""
    return [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for call in said.calls
    ]


def _content(said: Said) -> str | list[dict[str, Any]] | None:
    if not said.images:
        return said.text if said.parts or not said.calls else None
    return [_part(part) for part in said.parts]


def _part(part: str | Picture) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    url: dict[str, Any] = {"url": image_url(part.image)}
    if part.detail is not None:
        url["detail"] = part.detail
    return {"type": "image_url", "image_url": url}


def _with_strict(tool: dict[str, Any], is_strict: bool | None) -> dict[str, Any]:
    if is_strict is not None:
        tool["function"]["strict"] = is_strict
    return tool


def _read(reply: ChatCompletion, choice: Choice, version: int, ask: Ask) -> Answer:
    completion = read_choice(reply, choice)
    ids, logprobs = completion.token_ids, completion.logprobs
    if ids is not None and logprobs is not None and len(ids) != len(logprobs):
        raise PolicyError(
            f"the upstream server sent {len(ids)} token ids and {len(logprobs)} log-probabilities",
            kind="bad-reply",
        )
    completion = Completion(
        completion.text, completion.finish, completion.prompt_token_ids, ids, logprobs, version
    )
    usage = reply.usage
    tokens = choice.logprobs.content if choice.logprobs and ask.wants_logprobs else None
    return Answer(
        completion,
        _said(choice),
        _ending(choice),
        None if tokens is None else tuple(token.token for token in tokens),
        num_prompt=usage.prompt_tokens if usage else len(completion.prompt_token_ids or ()),
        num_sampled=_num_sampled(reply, choice, ids),
    )


def _num_sampled(reply: ChatCompletion, choice: Choice, ids: Sequence[int] | None) -> int:
    if ids is not None or reply.usage is None:
        return len(ids or ())
    # The usage is that of all choices; it is told once.
    return reply.usage.completion_tokens if choice is reply.choices[0] else 0


def _said(choice: Choice) -> Said:
    message = choice.message
    calls = []
    for call in message.tool_calls or ():
        if call.type != "function":
            raise PolicyError(f"the upstream server sent a {call.type} call", kind="bad-reply")
        calls.append(Call(call.id, call.function.name, call.function.arguments))
    dumped = message.model_dump(exclude_none=True)
    extras = {name: value for name, value in dumped.items() if name not in _OWN_FIELDS and value}
    if message.refusal:
        extras["refusal"] = message.refusal
    return Said(
        "assistant", (message.content,) if message.content else (), tuple(calls), None, extras
    )


def _ending(choice: Choice) -> Ending:
    endings: dict[str, Ending] = {"stop": "stop", "length": "length", "tool_calls": "tool_calls"}
    if choice.finish_reason not in endings:
        raise PolicyError(
            f"the upstream server ended an answer with {choice.finish_reason!r}", kind="bad-reply"
        )
    return endings[choice.finish_reason]
