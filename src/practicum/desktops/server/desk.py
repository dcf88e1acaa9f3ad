"""What all routes share: the computer, one hand on its keyboard, and how answers look."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from practicum.desktops.computer import Computer

REQUEST_ID = "X-Request-Id"


def new_token() -> str:
    """A token that nobody guesses."""
    return secrets.token_urlsafe(24)


@dataclass(frozen=True, slots=True)
class Terms:
    """Who may use a server, and how much of it."""

    token: str = field(default_factory=new_token, repr=False)
    is_open: bool = False
    """No token is asked for. Only on the loopback interface."""
    max_body_bytes: int = 4 * 2**20
    max_upload_bytes: int = 256 * 2**20
    open_timeout_s: float = 120.0
    """How long a file that is opened may take to show its window."""


class Desk:
    """A computer that is served."""

    def __init__(self, source: Callable[[], Computer], terms: Terms) -> None:
        self._source = source
        self.terms = terms
        self.hand = asyncio.Lock()
        """Held while pointer and keyboard are used: two actions never mix."""

    @property
    def computer(self) -> Computer:
        """The computer as it is now; a reset gives a new one."""
        return self._source()

    def expand(self, path: str) -> str:
        """Put the desktop's home folder for `~` and `$HOME`."""
        home = str(self.computer.home)
        if path == "~" or path.startswith("~/"):
            path = home + path[1:]
        return path.replace("${HOME}", home).replace("$HOME/", f"{home}/")


class BadRequestError(Exception):
    """The request makes no sense; `status` says in which way."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


def answer(value: Any, status: int = 200) -> web.Response:
    """Answer with JSON."""
    text = json.dumps(value, ensure_ascii=False)
    # Half a surrogate pair, from a command's output, has no UTF-8.
    body = text.encode("utf-8", "replace")
    return web.Response(body=body, status=status, content_type="application/json")


def complain(message: str, status: int, **more: Any) -> web.Response:
    """Answer with an error, under both names that clients look for."""
    return answer({"status": "error", "message": message, "error": message, **more}, status)


async def body_of(request: web.Request) -> dict[str, Any]:
    """The JSON object in a request."""
    try:
        value = json.loads(await request.read())
    except ValueError as error:
        raise BadRequestError(f"the body is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise BadRequestError("the body is not a JSON object")
    return value


def text_in(body: dict[str, Any], name: str) -> str:
    """A text that must be in a body."""
    value = body.get(name)
    if not isinstance(value, str) or not value:
        raise BadRequestError(f"{name!r} is required, and a text")
    return value


def flag_in(body: dict[str, Any], name: str) -> bool:
    """A yes or no that may be in a body."""
    value = body.get(name, False)
    if not isinstance(value, bool):
        raise BadRequestError(f"{name!r} is true or false")
    return value


def seconds_in(body: dict[str, Any], name: str, default: float, most: float) -> float:
    """A number of seconds that may be in a body."""
    value = body.get(name, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= most:
        raise BadRequestError(f"{name!r} is a number of seconds up to {most:g}")
    return float(value)
