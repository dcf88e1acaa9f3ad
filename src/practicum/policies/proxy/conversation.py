"""What an agent asks and what it is told, in one form for all the APIs that it may speak.

Two conversations are compared by their keys. A key covers tools, texts, pictures and calls, and
not how an API or an SDK wraps them, so that a message that comes back is known again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from practicum.core.canonical import content_hash
from practicum.core.episode import Completion
from practicum.core.errors import PracticumError
from practicum.core.message import Image

Speaker = Literal["system", "user", "assistant", "tool"]
Ending = Literal["stop", "length", "tool_calls"]


class RefusedError(PracticumError):
    """A request that is not answered, for a reason the caller can mend."""

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        kind: str = "unsupported",
        status: int = 400,
    ) -> None:
        super().__init__(message)
        self.param = param
        self.kind = kind
        self.status = status


@dataclass(frozen=True, slots=True)
class Picture:
    """An image in a message, and how closely a model should look at it."""

    image: Image
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A function that the model wants called."""

    id: str
    name: str
    arguments: str
    """A JSON object as text."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the model may call."""

    name: str
    description: str | None = None
    parameters: Mapping[str, Any] | None = None
    is_strict: bool | None = None

    def to_json(self) -> dict[str, Any]:
        """The tool as chat completions write it."""
        function: dict[str, Any] = {"name": self.name}
        if self.description is not None:
            function["description"] = self.description
        if self.parameters is not None:
            function["parameters"] = self.parameters
        return {"type": "function", "function": function}


@dataclass(frozen=True, slots=True)
class Said:
    """One message of a conversation."""

    speaker: Speaker
    parts: tuple[str | Picture, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    call_id: str | None = None
    """Which call a tool's result answers."""
    extras: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of an upstream server's own; not part of the key."""

    @property
    def text(self) -> str:
        """Its texts, a line each."""
        return "\n".join(part for part in self.parts if isinstance(part, str))

    @property
    def images(self) -> tuple[Image, ...]:
        """Its pictures, in order."""
        return tuple(part.image for part in self.parts if isinstance(part, Picture))

    def key(self, before: str) -> str:
        """The key of a conversation that ends with this message, given the key of the rest."""
        return content_hash(
            [
                before,
                self.speaker,
                _parts_key(self.parts),
                [[call.id, call.name, _parsed(call.arguments)] for call in self.calls],
                self.call_id,
            ]
        )


@dataclass(frozen=True, slots=True)
class Ask:
    """One request for an answer."""

    messages: tuple[Said, ...]
    tools: tuple[Tool, ...] = ()
    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int | None = None
    """None: whatever fits."""
    seed: int | None = None
    stop: tuple[str, ...] = ()
    num_answers: int = 1
    uses_tools: bool = True
    """False: the tools are shown and may not be called."""
    is_parallel: bool = True
    """Several calls may come in one answer."""
    wants_logprobs: bool = False
    wants_token_ids: bool = False
    is_streamed: bool = False
    wants_usage: bool = False
    """At the end of a stream."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What we cannot do ourselves, by the names of chat completions; an upstream may."""
    labels: Mapping[str, Any] = field(default_factory=dict)
    """What does not bear on the answer: kept on record."""

    def keys(self) -> list[str]:
        """The key of every beginning of the conversation, from none of its messages to all."""
        keys = [content_hash([tool.to_json() for tool in self.tools])]
        for message in self.messages:
            keys.append(message.key(keys[-1]))
        return keys


@dataclass(frozen=True, slots=True)
class Answer:
    """What was sampled, and what the agent is told of it."""

    completion: Completion
    said: Said
    ending: Ending = "stop"
    tokens: tuple[str, ...] | None = None
    """The texts of the sampled tokens, where they were asked for."""
    num_prompt: int = 0
    num_sampled: int = 0
    stopped_at: str | None = None
    """The text at which it was asked to stop, and did."""


def merge_answers(messages: Sequence[Said]) -> tuple[Said, ...]:
    """Join messages of the assistant that follow each other: some SDKs part text from calls."""
    merged: list[Said] = []
    for message in messages:
        last = merged[-1] if merged else None
        if last is not None and last.speaker == message.speaker == "assistant":
            merged[-1] = replace(
                last,
                parts=last.parts + message.parts,
                calls=last.calls + message.calls,
                extras={**last.extras, **message.extras},
            )
        else:
            merged.append(message)
    return tuple(merged)


def _parts_key(parts: Sequence[str | Picture]) -> list[Any]:
    """Texts that follow each other as one, pictures by content."""
    key: list[Any] = []
    for part in parts:
        if isinstance(part, Picture):
            key.append([part.image.hash, part.image.media_type, part.detail or "auto"])
        elif not part:
            continue
        elif key and isinstance(key[-1], str):
            key[-1] += f"\n{part}"
        else:
            key.append(part)
    return key


def _parsed(arguments: str) -> Any:
    """Arguments by content: an API that sends them as an object loses how they were spaced."""
    try:
        return json.loads(arguments, parse_constant=_refuse_constant)
    except ValueError:
        return arguments


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
