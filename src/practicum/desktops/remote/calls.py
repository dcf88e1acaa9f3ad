"""HTTP calls to a desktop's server: a deadline each, and failures with a name.

| what happened | `kind` |
|---|---|
| refused, reset, broken off before an answer | `connection` |
| no answer within the deadline | `timeout` |
| 401, 403 | `unauthorized` |
| 429, for longer than we wait | `busy` |
| other 4xx, 5xx | what our server says in `kind`; else `bad-request`, `server-error` |
| not what this route answers with | `bad-reply` |

A call is repeated only if that is safe: it only looks, or the server knows its id and does it at
most once. Whoever is turned away with 429 was not served, so that call is always made again, on
the terms that the server names.
"""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp

from practicum.core.errors import ConfigError, MachineError
from practicum.core.retry import Again, Backoff, read_retry_after, retry
from practicum.core.tokens import bearer

logger = logging.getLogger(__name__)

CALL_TIMEOUT_S = 60.0
BACKOFF = Backoff(attempts=4, first_wait_s=0.2, longest_wait_s=60.0)
BUSY_PATIENCE = 15
"""How many times more often a full server is asked than a broken one."""
REQUEST_ID = "X-Request-Id"

_TRANSIENT = frozenset({"connection", "timeout", "bad-reply"})
_STATUS = {401: "unauthorized", 403: "unauthorized", 429: "busy"}

OnWait = Callable[[Exception, float], None]


class CallError(MachineError):
    """A call of a desktop's server failed."""

    def __init__(
        self, message: str, *, kind: str, status: int = 0, asked_s: float | None = None
    ) -> None:
        super().__init__(message, kind=kind)
        self.status = status
        self.asked_s = asked_s
        """How long the server wants to be left alone."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete answer with a good status."""

    what: str
    body: bytes = field(repr=False)
    media_type: str

    def json(self) -> Any:
        """Read it as JSON."""
        try:
            return json.loads(self.body)
        except ValueError as error:
            raise self.bad(f"not JSON: {self.body[:120]!r}") from error

    def bad(self, why: str) -> CallError:
        """The error for an answer that makes no sense."""
        return CallError(f"{self.what}: {why}", kind="bad-reply")


class Calls:
    """Calls one server. Knows HTTP; knows no computers."""

    def __init__(
        self,
        base_url: str,
        token: str | None = None,
        *,
        timeout_s: float = CALL_TIMEOUT_S,
        backoff: Backoff = BACKOFF,
        on_wait: OnWait | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        if not base_url.startswith(("http://", "https://")):
            raise ConfigError(f"{base_url} is no http or https URL")
        self.base_url = base_url.rstrip("/")
        self.timeout_s = timeout_s
        self._headers = bearer(token)
        self._backoff = backoff
        self._patience = replace(backoff, attempts=backoff.attempts * BUSY_PATIENCE)
        self._on_wait = on_wait
        self._tls = tls
        self._session: aiohttp.ClientSession | None = None

    async def once(self, method: str, path: str, **body: Any) -> Reply:
        """Make a call, once; whoever asks decides what to do about a failure."""
        return await self._call(method, path, {}, **body)

    async def look(self, method: str, path: str, **body: Any) -> Reply:
        """Make a call that changes nothing; repeated if need be."""
        return await self._patiently(
            lambda: retry(lambda: self._call(method, path, {}, **body), _judge, self._backoff)
        )

    async def do(self, path: str, **body: Any) -> Reply:
        """Post something that must not be done twice; it is sent once."""
        return await self._patiently(lambda: self._call("POST", path, {}, **body))

    async def do_once(self, path: str, **body: Any) -> Reply:
        """Post something under an id, to a server that does an id at most once; repeated."""
        headers = {REQUEST_ID: uuid.uuid4().hex}
        return await self._patiently(
            lambda: retry(lambda: self._call("POST", path, headers, **body), _judge, self._backoff)
        )

    async def aclose(self) -> None:
        """Close the connections; idempotent."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _patiently(self, call: Callable[[], Awaitable[Reply]]) -> Reply:
        return await retry(call, _judge_busy, self._patience, self._say_waiting)

    def _say_waiting(self, error: Exception, wait_s: float) -> None:
        if self._on_wait is not None:
            self._on_wait(error, wait_s)
        else:
            logger.info("%s is full; asked again in %.1f s", self.base_url, wait_s)

    async def _call(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        *,
        json: Any = None,
        form: Mapping[str, str] | None = None,
        upload: tuple[str, bytes] | None = None,
        timeout_s: float | None = None,
    ) -> Reply:
        what = f"{method} {self.base_url}{path}"
        data: Any = form
        if upload is not None:
            data = aiohttp.FormData({"file_path": upload[0]})
            data.add_field("file_data", upload[1], filename="file")
        limit_s = timeout_s or self.timeout_s
        try:
            async with (
                asyncio.timeout(limit_s),
                self._connected().request(
                    method,
                    self.base_url + path,
                    json=json,
                    data=data,
                    headers=headers,
                    allow_redirects=False,
                ) as response,
            ):
                body = await response.read()
        except TimeoutError as error:
            raise CallError(f"{what}: no answer within {limit_s:g} s", kind="timeout") from error
        except (aiohttp.ClientConnectionError, OSError) as error:
            raise CallError(f"{what}: {_name(error)}", kind="connection") from error
        except aiohttp.ClientError as error:
            raise CallError(f"{what}: {_name(error)}", kind="bad-reply") from error
        if not 200 <= response.status < 300:
            raise _refusal(what, response.status, response.headers.get("Retry-After"), body)
        return Reply(what, body, response.content_type)

    def _connected(self) -> aiohttp.ClientSession:
        if self._session is None:
            # Deadlines are ours, one for each call.
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=self._tls or True),
                headers=self._headers,
                timeout=aiohttp.ClientTimeout(),
            )
        return self._session


def _judge(error: Exception) -> Again | None:
    if isinstance(error, CallError) and not error.status and error.kind in _TRANSIENT:
        return Again()
    return None


def _judge_busy(error: Exception) -> Again | None:
    if isinstance(error, CallError) and error.kind == "busy":
        return Again(error.asked_s)
    return None


def _refusal(what: str, status: int, retry_after: str | None, body: bytes) -> CallError:
    try:
        said = json.loads(body)
    except ValueError:
        said = None
    if not isinstance(said, dict):
        said = {"message": body[:200].decode("utf-8", "replace")}
    message = said.get("message") or said.get("error") or ""
    kind = _STATUS.get(status) or ("server-error" if status >= 500 else "bad-request")
    if 300 <= status < 400:
        kind = "bad-reply"
    named = said.get("kind")
    if isinstance(named, str) and named and status not in (401, 429):
        kind = named
    return CallError(
        f"{what}: HTTP {status}: {message}",
        kind=kind,
        status=status,
        asked_s=read_retry_after(retry_after),
    )


def _name(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")
