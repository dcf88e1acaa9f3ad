"""Who answers: a policy of ours, token by token, or a chat server behind a URL."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Protocol

from practicum.core.agent import Policy, Prompt, Sampling, Situation
from practicum.core.canonical import stable_seed
from practicum.core.episode import Completion, Turn
from practicum.core.errors import ConfigError
from practicum.core.message import Message, Observation
from practicum.core.task import Task
from practicum.policies.proxy.conversation import (
    Answer,
    Ask,
    Ending,
    RefusedError,
    Said,
    ToolCall,
)
from practicum.policies.proxy.tool_text import (
    CALL_END,
    describe_tools,
    read_calls,
    write_answer,
    write_result,
)
from practicum.policies.rendering import Renderer
from practicum.policies.token_endpoint import TokenEndpointPolicy

WHATEVER_FITS = 2**31
"""The limit of an answer for which none was given: policies cut it at their context."""

_TASK = Task.create("proxy", "", {})


@dataclass(frozen=True, slots=True)
class Known:
    """The beginning of a conversation that was answered before."""

    completion: Completion
    num_messages: int
    """How many messages it covers, the answer included."""


class Upstream(Protocol):
    """Where answers come from."""

    model: str
    """The name that answers are given under."""

    async def answer(self, ask: Ask, known: Known | None) -> Sequence[Answer]:
        """Answer, or raise `RefusedError` (the agent's doing) or `PolicyError` (ours)."""
        ...

    def set_version(self, version: int) -> None:
        """Take note of new weights, or raise `RefusedError`."""
        ...

    async def aclose(self) -> None:
        """Release what is held."""
        ...


class PolicyUpstream:
    """A policy that reads and writes tokens. What was sampled is never tokenised again."""

    def __init__(self, policy: Policy, renderer: Renderer, model: str) -> None:
        self.model = model
        self._policy = policy
        self._renderer = renderer

    async def answer(self, ask: Ask, known: Known | None) -> Sequence[Answer]:
        """Sample; a known beginning is taken as the ids that it was sampled with."""
        for name in ask.options:
            raise RefusedError(
                f"{name}: cannot be done where the proxy samples token by token; leave it out, or "
                "put the proxy in front of a chat server that can",
                param=name,
            )
        prompt = self._prompt(ask, known)
        limit = WHATEVER_FITS if ask.max_tokens is None else ask.max_tokens
        sampling = Sampling(ask.temperature, ask.top_p, limit)
        seed = secrets.randbits(63) if ask.seed is None else ask.seed % 2**63
        seeds = [seed, *(stable_seed(seed, n) for n in range(1, ask.num_answers))]
        try:
            async with asyncio.TaskGroup() as group:
                jobs = [group.create_task(self._sample(prompt, sampling, s)) for s in seeds]
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from errors
        return [self._read(ask, job.result()) for job in jobs]

    def set_version(self, version: int) -> None:
        """Refuse: a policy counts its versions itself, unless it only asks a server."""
        if not isinstance(self._policy, TokenEndpointPolicy):
            raise RefusedError("this policy counts its versions itself", status=409)
        self._policy.version = version

    async def aclose(self) -> None:
        """Close the policy."""
        await self._policy.aclose()

    async def _sample(self, prompt: Prompt, sampling: Sampling, seed: int) -> Completion:
        seeded = replace(prompt, situation=replace(prompt.situation, seed=seed))
        completion = await self._policy.complete(seeded, sampling)
        if completion.finish == "context":
            raise context_is_full()
        return completion

    def _prompt(self, ask: Ask, known: Known | None) -> Prompt:
        try:
            return self._extended(ask, known)
        except ConfigError as error:
            raise RefusedError(str(error), param="messages") from error

    def _extended(self, ask: Ask, known: Known | None) -> Prompt:
        """The conversation, with the ids of all that comes before the last message."""
        if known is not None and known.completion.token_ids is None:
            known = None
        last = None if known is None else known.completion
        rest = to_messages(ask, 0 if known is None else known.num_messages)
        if rest[-1].role != "user":
            raise RefusedError(
                "the last message is the assistant's: end with one of the user or of a tool",
                param="messages",
            )
        opening: list[Message] = []
        for message in rest[:-1]:
            if message.role != "assistant":
                opening.append(message)
                continue
            # An answer that was not sampled here: it is written, and nobody trains on it.
            ids = self._renderer.prompt_ids(_asking(opening, last))
            last = Completion(
                message.text,
                prompt_token_ids=ids,
                token_ids=self._renderer.answer_ids(message.text),
            )
            opening = []
        prompt = _asking([*opening, rest[-1]], last)
        return replace(prompt, messages=tuple(to_messages(ask)))

    def _read(self, ask: Ask, completion: Completion) -> Answer:
        completion, text, mark = self._cut(completion, ask)
        calls: tuple[ToolCall, ...] = ()
        if ask.tools and ask.uses_tools:
            text, calls = read_calls(text)
        ending: Ending = "tool_calls" if calls else "stop"
        if completion.finish == "length":
            ending = "length"
        ids = completion.token_ids or ()
        return Answer(
            completion,
            Said("assistant", (text,) if text else (), calls),
            ending,
            tuple(self._renderer.token_text(i) for i in ids) if ask.wants_logprobs else None,
            num_prompt=len(completion.prompt_token_ids or ()),
            num_sampled=len(ids),
            stopped_at=mark if mark in ask.stop else None,
        )

    def _cut(self, completion: Completion, ask: Ask) -> tuple[Completion, str, str | None]:
        """End an answer where it was asked to end; gives the text to show and the mark, too.

        What was sampled beyond is dropped as if sampling had stopped there. The token in which
        the end was reached stays, also where a part of it is not shown.
        """
        text = completion.text
        ends = [(text.find(stop), 0, stop) for stop in ask.stop]
        if ask.tools and ask.uses_tools and not ask.is_parallel:
            ends.append((text.find(CALL_END), len(CALL_END), CALL_END))
        ends = [end for end in ends if end[0] >= 0]
        if not ends:
            return completion, text, None
        start, num_shown, mark = min(ends)
        shown = text[: start + num_shown]
        ids = completion.token_ids
        if ids is None:
            return replace(completion, text=shown, finish="stop"), shown, mark
        decode = self._renderer.decode
        low, high = 1, len(ids)
        while low < high:
            middle = (low + high) // 2
            if mark in decode(ids[:middle]):
                high = middle
            else:
                low = middle + 1
        logprobs = completion.logprobs
        kept = replace(
            completion,
            text=decode(ids[:low]),
            finish="stop",
            token_ids=ids[:low],
            logprobs=None if logprobs is None else logprobs[:low],
        )
        return kept, shown, mark


def context_is_full() -> RefusedError:
    """A conversation that leaves no room for an answer is the agent's doing."""
    return RefusedError(
        "the conversation is longer than the model's context length: send less of it",
        param="messages",
        kind="context_length_exceeded",
    )


def to_messages(ask: Ask, start: int = 0) -> list[Message]:
    """The messages from one on, as chat templates take them: user and assistant in turn.

    Messages of the user and results of tools that follow each other become one message, and
    leading system messages and the tools another.
    """
    rest = list(ask.messages[start:])
    messages: list[Message] = []
    if start == 0:
        system: list[str] = []
        while rest and rest[0].speaker == "system":
            system.append(_text(rest.pop(0)))
        if ask.tools:
            system.append(describe_tools(ask.tools))
        if system:
            messages.append(Message("system", "\n\n".join(system)))
    for is_answer, group in groupby(rest, lambda said: said.speaker == "assistant"):
        if is_answer:
            messages += [
                Message("assistant", write_answer(_text(said), said.calls)) for said in group
            ]
        else:
            messages.append(Message("user", _joined(list(group))))
    if not messages or messages[-1].role == "system":
        raise RefusedError("there is no message to answer", param="messages")
    return messages


def _joined(group: Sequence[Said]) -> str:
    text = ""
    for index, said in enumerate(group):
        if said.speaker == "system":
            raise RefusedError(
                "a system message stands after the beginning, where chat templates have no place "
                "for it: put it first, or send it as a message of the user",
                param="messages",
            )
        is_result = said.speaker == "tool"
        if index:
            text += "\n" if is_result and group[index - 1].speaker == "tool" else "\n\n"
        text += write_result(_text(said)) if is_result else _text(said)
    return text


def _text(said: Said) -> str:
    if said.images:
        raise RefusedError(
            "this model reads text only and the messages hold an image: leave images out, or put "
            "the proxy in front of a vision-language server",
            param="messages",
            kind="no-images",
        )
    for name in said.extras:
        raise RefusedError(
            f"{name}: a message of the {said.speaker} has no place for it in a chat template",
            param=f"messages.{name}",
        )
    return said.text


def _asking(messages: Sequence[Message], last: Completion | None) -> Prompt:
    if not messages:
        raise RefusedError(
            "the conversation begins with the assistant: the user begins", param="messages"
        )
    seen = Observation(messages[-1].text)
    history = () if last is None else (Turn(Observation(""), last, None),)
    return Prompt(tuple(messages), Situation(_TASK, 0, history, seen, seed=0))
