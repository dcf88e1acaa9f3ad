"""Leases desktops from a gateway and offers them as `Computer`s and as `host:port` addresses.

| what happened | `kind` |
|---|---|
| 429 and the bound on waiting is reached | `busy` |
| refused, reset, broken off before an answer | `connection` |
| no answer within the deadline | `timeout` |
| 401 | `unauthorized` |
| the lease ran out or the gateway restarted | `lost-lease` |
| the desktop broke | what the gateway says broke, as in `x-server` |
| the gateway failed several times in a row | `circuit-open`, without asking it again |
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from practicum.core.breaker import Breaker
from practicum.core.errors import ConfigError, MachineError
from practicum.core.leases import now_s
from practicum.core.retry import Again, Backoff, read_retry_after, retry
from practicum.core.sockets import is_loopback
from practicum.core.tokens import check_token
from practicum.desktops.computer import Computer
from practicum.desktops.gateway.doors import FAULT_HEADER, SERVER, Door, Doors
from practicum.desktops.pool import BusyError
from practicum.desktops.provider import BUSY, leased

logger = logging.getLogger(__name__)

CALL_TIMEOUT_S = 30.0
LONG_POLL_S = 10.0
"""How long one request for a desktop may wait in line at the gateway."""
WAIT_S = 1800.0
PATIENCE = Backoff(attempts=10_000, first_wait_s=0.5, longest_wait_s=60.0)
"""For a full gateway; how long in all is bounded by time, not by attempts."""
TROUBLE = Backoff(attempts=4, first_wait_s=0.2, longest_wait_s=5.0)
"""For one that fails."""

OnWait = Callable[[str, float], None]


class GatewayError(MachineError):
    """A gateway did not do what it was asked for."""

    def __init__(self, message: str, *, kind: str, asked_s: float | None = None) -> None:
        super().__init__(message, kind=kind)
        self.asked_s = asked_s
        """How long it wants to be left alone."""


class GatewayLease:
    """A desktop behind a gateway."""

    def __init__(self, client: GatewayClient, answer: Mapping[str, Any]) -> None:
        self._client = client
        self.id = str(answer["lease"])
        self.ttl_s = float(answer["ttl_s"])
        self.host = str(answer["host"])
        self._ports = [str(port) for port in answer["ports"]]
        self._computer: Computer | None = None
        self._is_released = False

    @property
    def doors(self) -> Doors:
        """Its ports, as the gateway gives them."""
        return {port: self._client.door(self.id, port) for port in self._ports}

    @property
    def computer(self) -> Computer:
        """What to act on."""
        if self._computer is None:
            self._computer = self._client.computer(self.id)
        return self._computer

    async def renew(self) -> None:
        """Keep it; a fault says why it is gone."""
        await self._client.call("POST", f"/leases/{self.id}/heartbeat")

    async def release(self) -> None:
        """Give it back; if that fails the gateway takes it back when it runs out."""
        if self._is_released:
            return
        self._is_released = True
        await self._client.give_back(self)


class GatewayClient:
    """Desktops of one gateway. Implements `DesktopProvider`."""

    def __init__(
        self,
        url: str,
        token: str,
        *,
        ca_file: Path | None = None,
        wait_s: float = WAIT_S,
        on_wait: OnWait | None = None,
        breaker: Breaker | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self._tls = _check_url(self.url, ca_file)
        self._authorization = f"Bearer {check_token(token, 'the token given')}"
        self._wait_s = wait_s
        self._on_wait = on_wait or _say_wait
        self._breaker = breaker or Breaker()
        self._session: aiohttp.ClientSession | None = None
        self._leases: dict[str, GatewayLease] = {}

    async def __aenter__(self) -> GatewayClient:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.aclose()

    @property
    def num_leases(self) -> int:
        """Desktops held."""
        return len(self._leases)

    @asynccontextmanager
    async def lease(self, wait_s: float | None = None) -> AsyncIterator[GatewayLease]:
        """Have a desktop for the length of a block."""
        async with leased(await self.acquire(wait_s)) as lease:
            yield lease

    async def acquire(self, wait_s: float | None = None) -> GatewayLease:
        """Take a desktop; waits while the gateway is full, and says so through `on_wait`."""
        limit_s = self._wait_s if wait_s is None else wait_s
        deadline_s = now_s() + limit_s
        # The same for every attempt: one whose answer was lost is not a second lease.
        key = secrets.token_hex(8)

        async def ask() -> Any:
            left_s = max(0.0, min(deadline_s - now_s(), LONG_POLL_S))
            wish = {"wait_s": left_s, "key": key}
            return await retry(
                lambda: self.call("POST", "/leases", wish, timeout_s=left_s + CALL_TIMEOUT_S),
                _judge_trouble,
                TROUBLE,
                self._say,
            )

        def judge(error: Exception) -> Again | None:
            if not isinstance(error, GatewayError) or error.kind not in _FULL:
                return None
            asked_s = error.asked_s or 0.0
            return Again(error.asked_s) if now_s() + asked_s < deadline_s else None

        try:
            answer = await retry(ask, judge, PATIENCE, self._say)
        except GatewayError as error:
            if error.kind in _FULL:
                raise BusyError(
                    f"no desktop within {limit_s:g} s: {error}", error.asked_s or 1.0
                ) from error
            raise
        lease = GatewayLease(self, answer)
        self._leases[lease.id] = lease
        return lease

    async def give_back(self, lease: GatewayLease) -> None:
        """Release a lease."""
        self._leases.pop(lease.id, None)
        try:
            await retry(lambda: self.call("DELETE", f"/leases/{lease.id}"), _judge_trouble, TROUBLE)
        except MachineError as error:
            logger.warning("lease %s was not given back and will run out: %s", lease.id, error)

    async def aclose(self) -> None:
        """Give back what is held, close the connections; idempotent."""
        await asyncio.gather(*(lease.release() for lease in list(self._leases.values())))
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def describe(self) -> Mapping[str, Any]:
        """What the gateway says of itself."""
        answer: Mapping[str, Any] = await self.call("GET", "/describe")
        return answer

    def door(self, lease_id: str, port: str) -> Door:
        """Where a port of a leased desktop is reached."""
        return Door(
            f"{self.url}/leases/{lease_id}/{port}",
            self._authorization,
            is_gateway=True,
            tls=self._tls,
        )

    def computer(self, lease_id: str) -> Computer:
        """A leased desktop."""
        from practicum.desktops.remote import RemoteComputer

        raise NotImplementedError(RemoteComputer, SERVER, lease_id)

    async def call(
        self, method: str, path: str, body: Any = None, timeout_s: float = CALL_TIMEOUT_S
    ) -> Any:
        """Call one of the gateway's own routes, once; failures have a name."""
        if not self._breaker.allow():
            raise GatewayError(
                f"{self.url} failed several times in a row and is left alone for "
                f"{self._breaker.wait_s:.0f} s",
                kind="circuit-open",
                asked_s=self._breaker.wait_s,
            )
        try:
            answer = await self._call(method, path, body, timeout_s)
        except GatewayError as error:
            if error.kind in _TROUBLE:
                self._breaker.failed()
            else:
                self._breaker.succeeded()
            raise
        self._breaker.succeeded()
        return answer

    def _say(self, error: Exception, pause_s: float) -> None:
        self._on_wait(str(error), pause_s)

    async def _call(self, method: str, path: str, body: Any, timeout_s: float) -> Any:
        what = f"{method} {self.url}{path}"
        if self._session is None:
            self._session = self.door("", "").connect()
        headers = {"Authorization": self._authorization}
        try:
            async with (
                asyncio.timeout(timeout_s),
                self._session.request(
                    method, self.url + path, json=body, headers=headers, allow_redirects=False
                ) as response,
            ):
                content = await response.text()
                if response.status // 100 == 2:
                    return await response.json()
        except TimeoutError as error:
            raise GatewayError(
                f"{what}: no answer within {timeout_s:g} s", kind="timeout"
            ) from error
        except aiohttp.ClientConnectorCertificateError as error:
            raise GatewayError(f"{what}: {error}", kind="bad-certificate") from error
        except (aiohttp.ClientConnectionError, OSError) as error:
            raise GatewayError(
                f"{what}: {type(error).__name__}: {error}", kind="connection"
            ) from error
        except (aiohttp.ClientError, ValueError) as error:
            raise GatewayError(
                f"{what}: {type(error).__name__}: {error}", kind="bad-reply"
            ) from error
        raise _refusal(what, response, content)


_FULL = frozenset({BUSY, "quota", "rate", "no-desktops"})
"""Worth waiting for; what is not free now may be soon."""
_TROUBLE = frozenset({"connection", "timeout", "server-error", "bad-reply"})


def _refusal(what: str, response: aiohttp.ClientResponse, content: str) -> GatewayError:
    kinds = {401: "unauthorized", 403: "unauthorized", 429: BUSY, 503: BUSY}
    other = "server-error" if response.status >= 500 else "bad-request"
    kind = response.headers.get(FAULT_HEADER) or kinds.get(response.status, other)
    asked_s = read_retry_after(response.headers.get("Retry-After"))
    said = content[:300] if content else response.reason
    return GatewayError(f"{what}: HTTP {response.status}: {said}", kind=kind, asked_s=asked_s)


def _judge_trouble(error: Exception) -> Again | None:
    return Again() if isinstance(error, GatewayError) and error.kind in _TROUBLE else None


def _say_wait(why: str, pause_s: float) -> None:
    logger.warning("waiting %.1f s for a desktop: %s", pause_s, why)


def _check_url(url: str, ca_file: Path | None) -> ssl.SSLContext | None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
        raise ConfigError(
            f"{parts.scheme}://{parts.hostname}: a gateway's address is https://host:port"
        )
    if parts.scheme == "https":
        try:
            return ssl.create_default_context(cafile=ca_file)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"cannot use the certificates in {ca_file}: {error}") from error
    if not is_loopback(parts.hostname):
        raise ConfigError(
            f"{url} would send the token over the network in the clear: use https, or a tunnel "
            "that ends on 127.0.0.1"
        )
    if ca_file is not None:
        raise ConfigError(f"ca_file has no meaning for {url}, which is not https")
    return None
