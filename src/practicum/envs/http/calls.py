"""HTTP calls of the client: pooled connections, a deadline each, and failures with a name.

| what happened | `kind` |
|---|---|
| refused, reset, broken off before an answer | `connection` |
| no answer within the deadline | `timeout` |
| 401, 403 | `unauthorized` |
| 422 and other 4xx | `bad-request` |
| 429, 503 | `busy` |
| other 5xx, or `{"error": …}` at 200 | `server-error` |
| the same, and it says that the session is unknown | `lost-session` |
| HTML, no JSON, a truncated body, a wrong content type | `bad-reply` |

A call is repeated only if its caller says that repeating is safe.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar
from urllib.parse import urlencode

import aiohttp

from practicum.core.errors import EnvError, EpisodeError
from practicum.core.retry import Again, Backoff, read_retry_after, retry
from practicum.core.tokens import bearer
from practicum.envs.http import wire
from practicum.envs.http.http1 import Client, ProtocolError, Response

CALL_TIMEOUT_S = 30.0
BACKOFF = Backoff(attempts=5, first_wait_s=0.2, longest_wait_s=10.0)

BUSY_PATIENCE = 10
"""How many times more often a full server is asked than a broken one."""

_TRANSIENT = frozenset({"connection", "timeout", "server-error", "bad-reply"})
_LOST = re.compile(r"not valid|been deleted|not found|unknown (id|session|lease)", re.IGNORECASE)

Result = TypeVar("Result")


class CallError(EnvError):
    """A call of a remote environment failed."""

    def __init__(
        self, message: str, *, kind: str, status: int = 0, asked_s: float | None = None
    ) -> None:
        super().__init__(message, kind=kind)
        self.status = status
        self.asked_s = asked_s
        """How long the server wants to be left alone."""


class Caller:
    """Calls one server. Knows HTTP and JSON; knows no environments."""

    def __init__(
        self,
        base_url: str,
        token: str | None = None,
        timeout_s: float = CALL_TIMEOUT_S,
        backoff: Backoff = BACKOFF,
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self.backoff = backoff
        self.timeout_s = timeout_s
        more = BUSY_PATIENCE if backoff.attempts > 1 else 1
        self._patience = replace(backoff, attempts=backoff.attempts * more)
        self.headers = bearer(token)
        self._http = Client(self.base_url, self.headers)

    async def post(self, path: str, body: Any, *, is_repeatable: bool = False) -> Any:
        """Post JSON and return the JSON of the answer."""

        async def call() -> Any:
            return await self._call("POST", path, body, None)

        return await self.repeat(call) if is_repeatable else await call()

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        """Get JSON; repeated if need be, since reading changes nothing."""
        return await self.repeat(lambda: self._call("GET", path, None, query))

    async def repeat(self, call: Callable[[], Awaitable[Result]]) -> Result:
        """Make a call that is safe to repeat, as often as the backoff allows.

        A full server is no fault: it is asked far more often, on the terms that it names.
        """

        async def try_call() -> Result:
            return await retry(call, judge, self.backoff)

        return await retry(try_call, judge_busy, self._patience)

    async def aclose(self) -> None:
        """Close the connections; idempotent."""
        await self._http.aclose()

    async def _call(
        self, method: str, path: str, body: Any, query: Mapping[str, str] | None
    ) -> Any:
        what = f"{method} {self.base_url}{path}"
        data = None if body is None else wire.write(body).encode()
        if method == "POST" and data is None:
            data = b""  # servers want to be told that there is no body
        try:
            async with asyncio.timeout(self.timeout_s):
                route = f"{path}?{urlencode(query)}" if query else path
                response = await self._http.request(method, route, data)
        except Exception as error:
            raise name_failure(what, error, self.timeout_s) from error
        return read_answer(what, response)


def judge(error: Exception) -> Again | None:
    """Say whether a call that is safe to repeat is worth repeating."""
    if not isinstance(error, CallError) or error.kind not in _TRANSIENT:
        return None
    # An error inside a proper answer is the server's considered word; asking again is no use.
    if error.status == 200 and error.kind == "server-error":
        return None
    return Again(error.asked_s)


def judge_busy(error: Exception) -> Again | None:
    """Say whether a server is only full."""
    if isinstance(error, CallError) and error.kind == "busy":
        return Again(error.asked_s)
    return None


def name_failure(what: str, error: Exception, timeout_s: float) -> CallError:
    """Give a failure of the transport its name."""
    if isinstance(error, TimeoutError):
        return CallError(f"{what}: no answer within {timeout_s:g} s", kind="timeout")
    detail = f"{what}: {type(error).__name__}: {error}"
    if isinstance(error, ProtocolError):
        return CallError(detail, kind="bad-reply")
    if isinstance(error, aiohttp.ClientConnectionError | OSError):
        return CallError(detail, kind="connection")
    if isinstance(error, aiohttp.ClientError):
        return CallError(detail, kind="bad-reply")
    raise error


def read_answer(what: str, response: Response) -> Any:
    """Read an answer as JSON, or raise what it says."""
    status, content = response.status, response.body
    value = _json(response.content_type, content)
    if not 200 <= status < 300:
        raise _refusal(what, status, response.headers.get("retry-after"), value, content)
    if value is _NOT_JSON:
        raise CallError(
            f"{what}: {response.content_type} and not JSON: {_start(content)}", kind="bad-reply"
        )
    if isinstance(value, Mapping) and "error" in value:
        if "kind" in value:
            raise wire.read_error(value)
        message = str(value["error"])
        kind = "lost-session" if _LOST.search(message) else "server-error"
        raise CallError(f"{what}: {message}", kind=kind, status=status)
    return value


_NOT_JSON = object()


def _json(content_type: str, content: bytes) -> Any:
    if content_type != "application/json":
        return _NOT_JSON
    try:
        return json.loads(content)
    except ValueError:
        return _NOT_JSON


def _refusal(
    what: str, status: int, retry_after: str | None, value: Any, content: bytes
) -> EpisodeError:
    message = f"{what}: HTTP {status}: {_start(content)}"
    asked_s = read_retry_after(retry_after)
    if isinstance(value, Mapping) and "kind" in value:
        said = wire.read_error(value)
        if type(said) is not EnvError:
            return said
        return CallError(f"{what}: {said}", kind=said.kind, status=status, asked_s=asked_s)
    kinds = {401: "unauthorized", 403: "unauthorized", 429: "busy", 503: "busy"}
    kind = kinds.get(status, "server-error" if status >= 500 else "bad-request")
    if 300 <= status < 400:
        kind = "bad-reply"
    return CallError(message, kind=kind, status=status, asked_s=asked_s)


def _start(content: bytes, limit: int = 120) -> str:
    text = content[:limit].decode("utf-8", "replace")
    return repr(text if len(content) <= limit else text + "…")
