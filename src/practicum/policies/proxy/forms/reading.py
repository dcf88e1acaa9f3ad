"""What the forms share: strict reading, pictures, and sorting options by what can be done."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from practicum.core.message import Image
from practicum.policies.proxy.conversation import Answer, Ask, RefusedError

Body = TypeVar("Body", bound=BaseModel)

_DATA_URL = re.compile(r"data:(image/[\w.+-]+);base64,(.*)", re.DOTALL)


class Strict(BaseModel):
    """A part of a request in which every key has a meaning."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Open(BaseModel):
    """A part of a request whose further keys are options, to be done or refused by name."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    def further(self) -> dict[str, Any]:
        """The keys beyond those that are known, where they hold something."""
        extras = self.model_extra or {}
        return {name: value for name, value in extras.items() if value not in (None, [], {})}


def read_body(cls: type[Body], text: bytes, status: int = 400, where: str = "") -> Body:
    """Read a request or a part of one, or refuse it by the name of what is wrong."""
    try:
        return cls.model_validate(json.loads(text))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join([*([where] if where else []), *map(str, first["loc"])])
        message = f"{place or 'body'}: {first['msg']}"
        raise RefusedError(message, param=place or None, status=status) from error
    except ValueError as error:
        raise RefusedError(f"the body is not JSON: {error}", status=status) from error


def read_image(url: str, param: str) -> Image:
    """Read a picture that comes as a data URL; others would have to be fetched."""
    found = _DATA_URL.fullmatch(url)
    if found is None:
        raise RefusedError(
            f"{param}: a picture is sent as a data URL (data:image/png;base64,...), so that it is "
            f"on record; this is {url[:40]!r}",
            param=param,
        )
    return decode_image(found[2], found[1], param)


def decode_image(data: str, media_type: str, param: str) -> Image:
    """Read a picture in base64."""
    try:
        content = base64.b64decode(data, validate=True)
    except binascii.Error as error:
        raise RefusedError(f"{param}: the picture is not base64: {error}", param=param) from error
    if not content:
        raise RefusedError(f"{param}: the picture is empty", param=param)
    return Image(content, media_type)


def sort_options(
    given: Mapping[str, Any], labels: Iterable[str], idle: Mapping[str, Sequence[Any]]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Part what bears on the answer from labels; values in `idle` ask for nothing."""
    known_labels = set(labels)
    options, noted = {}, {}
    for name, value in given.items():
        if name in known_labels:
            noted[name] = value
        elif value not in idle.get(name, ()):
            options[name] = value
    return options, noted


@dataclass(frozen=True, slots=True)
class Reply:
    """Answers on their way to the agent."""

    id: str
    model: str
    created_s: int
    ask: Ask
    answers: Sequence[Answer]

    @property
    def num_prompt(self) -> int:
        """Tokens of the prompt."""
        return self.answers[0].num_prompt

    @property
    def num_sampled(self) -> int:
        """Tokens of all answers."""
        return sum(answer.num_sampled for answer in self.answers)


@dataclass(frozen=True, slots=True)
class Form:
    """One API."""

    prefix: str
    """Of the ids that it gives."""
    read: Callable[[bytes], Ask]
    write: Callable[[Reply], dict[str, Any]]
    stream: Callable[[Reply], Iterable[str]]
    """Server-sent events, each whole."""
    write_error: Callable[[RefusedError], dict[str, Any]]


def event(data: Mapping[str, Any] | str, name: str | None = None) -> str:
    """One server-sent event."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {text}\n\n"


def openai_error(refusal: RefusedError) -> dict[str, Any]:
    """An error as OpenAI's SDK reads it."""
    kind = "upstream_error" if refusal.status >= 500 else "invalid_request_error"
    return {
        "error": {
            "message": str(refusal),
            "type": kind,
            "param": refusal.param,
            "code": refusal.kind,
        }
    }
