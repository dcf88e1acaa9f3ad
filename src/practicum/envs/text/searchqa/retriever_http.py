"""Searching through a retrieval service that speaks Search-R1's protocol.

`POST {"queries": [query], "topk": k, "return_scores": true}` is answered with
`{"result": [[{"document": {"id": …, "contents": "\\"Title\\"\\ntext"}, "score": …}, …]]}`.
A search changes nothing, so it is repeated when the service is down or busy. What still
fails is an `EnvError`: `timeout`, `unreachable`, `server-error` (5xx or 429),
`bad-request` (other 4xx) or `bad-response` (not the JSON it should be).
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from practicum.core.errors import ConfigError, EnvError
from practicum.core.retry import Again, Backoff, read_retry_after, retry
from practicum.envs.text.searchqa.retriever import INSTALL, Document

if TYPE_CHECKING:
    import aiohttp

BACKOFF = Backoff(attempts=3, first_wait_s=0.2, longest_wait_s=10.0)
TIMEOUT_S = 30.0
"""For one search, all attempts together."""
MAX_RESPONSE_BYTES = 8 * 2**20
MAX_CONNECTIONS = 64

_REPEATABLE = frozenset({"unreachable", "server-error"})


class _ServiceError(EnvError):
    """A failed attempt, with the wait the service asked for."""

    def __init__(self, message: str, *, kind: str, asked_s: float | None = None) -> None:
        super().__init__(message, kind=kind)
        self.asked_s = asked_s


class HttpRetriever:
    """One pooled client for all episodes of an event loop."""

    def __init__(
        self, url: str, *, timeout_s: float = TIMEOUT_S, backoff: Backoff = BACKOFF
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise ConfigError(f"retriever_url must start with http:// or https://, not {url!r}")
        try:
            import aiohttp
        except ImportError as error:
            raise ConfigError(f"a retrieval service needs aiohttp: {INSTALL}") from error
        self._aiohttp = aiohttp
        self._url = url
        self._timeout_s = timeout_s
        self._backoff = backoff
        self._session: aiohttp.ClientSession | None = None

    async def retrieve(self, query: str, k: int) -> list[Document]:
        """Ask the service for up to `k` passages."""

        async def call() -> bytes:
            return await self._post({"queries": [query], "topk": k, "return_scores": True})

        try:
            async with asyncio.timeout(self._timeout_s):
                body = await retry(call, _judge, self._backoff)
        except TimeoutError as error:
            raise EnvError(
                f"{self._url} did not answer a search within {self._timeout_s:g} s: "
                "is the service overloaded?",
                kind="timeout",
            ) from error
        return self._read(body)[:k]

    async def aclose(self) -> None:
        """Close the connections; a later search opens new ones."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _post(self, payload: dict[str, Any]) -> bytes:
        if self._session is None:
            self._session = self._aiohttp.ClientSession(
                connector=self._aiohttp.TCPConnector(limit=MAX_CONNECTIONS),
                # The one deadline is in `retrieve`; aiohttp's own would cut it at 5 minutes.
                timeout=self._aiohttp.ClientTimeout(total=None),
            )
        try:
            async with self._session.post(self._url, json=payload) as response:
                if response.status != 200:
                    raise self._refused(response)
                return await self._read_body(response)
        except (self._aiohttp.ClientError, OSError) as error:
            raise _ServiceError(
                f"cannot reach the retrieval service {self._url} ({error}): is it running?",
                kind="unreachable",
            ) from error

    async def _read_body(self, response: aiohttp.ClientResponse) -> bytes:
        body = bytearray()
        async for chunk in response.content.iter_chunked(2**16):
            body += chunk
            if len(body) > MAX_RESPONSE_BYTES:
                raise self._bad_response(f"more than {MAX_RESPONSE_BYTES} bytes")
        return bytes(body)

    def _refused(self, response: aiohttp.ClientResponse) -> _ServiceError:
        is_busy = response.status >= 500 or response.status == 429
        return _ServiceError(
            f"{self._url} answered a search with HTTP {response.status}: see the service's log",
            kind="server-error" if is_busy else "bad-request",
            asked_s=read_retry_after(response.headers.get("Retry-After")),
        )

    def _read(self, body: bytes) -> list[Document]:
        try:
            result = json.loads(body)["result"]
            (hits,) = result
            return [_read_hit(hit) for hit in hits]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise self._bad_response(repr(body[:80])) from error

    def _bad_response(self, what: str) -> _ServiceError:
        return _ServiceError(
            f"{self._url} answered a search with {what}: not a Search-R1 retrieval service?",
            kind="bad-response",
        )


def _judge(error: Exception) -> Again | None:
    if isinstance(error, _ServiceError) and error.kind in _REPEATABLE:
        return Again(error.asked_s)
    return None


def _read_hit(hit: Any) -> Document:
    # Services that were told to leave the scores out put the document there itself.
    document = hit.get("document", hit) if isinstance(hit, dict) else hit
    doc_id = str(document.get("id", "")) if isinstance(document, dict) else ""
    if isinstance(document["contents"], str):
        return Document.from_contents(doc_id, document["contents"])
    raise TypeError("contents is not a text")
