"""Leases desktops from a gateway and offers them as `Computer`s and by their ports.

Faults are `MachineError`s with the kinds of `remote.calls`, and:

| what happened | `kind` |
|---|---|
| no desktop came free within the time we wait | `busy` |
| the lease ran out, or the gateway restarted | `lost-lease` |
| the desktop broke | what broke, as the gateway names it, as in `display` |
| no host of the gateway has a working desktop | `no-desktops` |
| the gateway failed several times in a row | `circuit-open`, without asking it again |
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from practicum.core.breaker import Breaker
from practicum.core.errors import ConfigError, MachineError
from practicum.core.leases import now_s
from practicum.core.retry import Again, Backoff, retry
from practicum.core.sockets import is_loopback
from practicum.core.tokens import check_token
from practicum.desktops.computer import Computer
from practicum.desktops.gateway.doors import SERVER, Door, Doors
from practicum.desktops.pool import BusyError
from practicum.desktops.provider import BUSY, leased
from practicum.desktops.remote import CallError, Calls, RemoteComputer, connect
from practicum.desktops.remote.calls import OnWait

logger = logging.getLogger(__name__)

CALL_TIMEOUT_S = 30.0
LONG_POLL_S = 10.0
"""How long one request for a desktop may wait in line at the gateway."""
WAIT_S = 1800.0
PATIENCE = Backoff(attempts=1_000_000, first_wait_s=0.5, longest_wait_s=60.0)
"""For a full gateway; how long in all is bounded by time, not by attempts."""
TROUBLE = Backoff(attempts=4, first_wait_s=0.2, longest_wait_s=5.0)
"""For one that fails."""

_FULL = frozenset({BUSY, "no-desktops"})
"""Worth waiting for: what is not free now may be soon."""
_TROUBLE = frozenset({"connection", "timeout", "server-error", "bad-reply"})


class GatewayLease:
    """A desktop behind a gateway."""

    def __init__(self, client: GatewayClient, answer: Mapping[str, Any]) -> None:
        self.id = str(answer["lease"])
        self.ttl_s = float(answer["ttl_s"])
        self.host = str(answer["host"])
        self._client = client
        self._ports = [str(port) for port in answer["ports"]]
        self._computer: RemoteComputer | None = None
        self._is_released = False

    @property
    def doors(self) -> Doors:
        """Its ports, as the gateway gives them; `forward.forwarded` opens them here."""
        return {port: self._client.door(self.id, port) for port in self._ports}

    @property
    def computer(self) -> Computer:
        """What to act on."""
        if self._computer is None:
            raise MachineError(f"lease {self.id} was taken for its ports alone", kind="state")
        return self._computer

    async def connect(self) -> None:
        """Make its `computer`."""
        self._computer = await self._client.connect(self.id)

    async def renew(self) -> None:
        """Keep it; a fault says why it is gone."""
        await self._client.call("POST", f"/leases/{self.id}/heartbeat")

    async def release(self) -> None:
        """Give it back; if that fails the gateway takes it back when it runs out."""
        if self._is_released:
            return
        self._is_released = True
        if self._computer is not None:
            await self._computer.aclose()
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
        self._token = check_token(token, "the argument")
        self._wait_s = wait_s
        self._on_wait = on_wait or _say_wait
        self._breaker = breaker or Breaker()
        self._calls = Calls(self.url, token, timeout_s=CALL_TIMEOUT_S, tls=self._tls)
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
        lease = await self.take(wait_s)
        try:
            await lease.connect()
        except BaseException:
            await asyncio.shield(lease.release())
            raise
        return lease

    async def take(self, wait_s: float | None = None) -> GatewayLease:
        """Take a desktop for its ports alone."""
        limit_s = self._wait_s if wait_s is None else wait_s
        deadline_s = now_s() + limit_s
        # The same for every attempt: one whose answer was lost is not a second lease.
        key = secrets.token_hex(8)

        async def ask() -> Any:
            left_s = max(0.0, min(deadline_s - now_s(), LONG_POLL_S))
            body = {"wait_s": left_s, "key": key}
            return await retry(
                lambda: self.call("POST", "/leases", json=body, timeout_s=left_s + CALL_TIMEOUT_S),
                _judge_trouble,
                TROUBLE,
                self._on_wait,
            )

        def judge(error: Exception) -> Again | None:
            if not isinstance(error, CallError) or error.kind not in _FULL:
                return None
            is_in_time = now_s() + (error.asked_s or 0.0) < deadline_s
            return Again(error.asked_s) if is_in_time else None

        try:
            answer = await retry(ask, judge, PATIENCE, self._on_wait)
        except CallError as error:
            if error.kind != BUSY:
                raise
            raise BusyError(
                f"no desktop within {limit_s:g} s: {error}", error.asked_s or 1.0
            ) from error
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
        await self._calls.aclose()

    async def describe(self) -> Mapping[str, Any]:
        """What the gateway says of itself."""
        answer: Mapping[str, Any] = await self.call("GET", "/describe")
        return answer

    async def connect(self, lease_id: str) -> RemoteComputer:
        """Make a computer of a leased desktop."""
        door = self.door(lease_id, SERVER)
        return await connect(door.url, token=self._token, on_wait=self._on_wait, tls=self._tls)

    def door(self, lease_id: str, port: str) -> Door:
        """Where a port of a leased desktop is reached."""
        return Door(
            f"{self.url}/leases/{lease_id}/{port}",
            f"Bearer {self._token}",
            is_gateway=True,
            tls=self._tls,
        )

    async def call(self, method: str, path: str, **body: Any) -> Any:
        """Call one of the gateway's own routes, once; failures have a name."""
        if not self._breaker.allow():
            raise CallError(
                f"{self.url} failed several times in a row and is left alone for "
                f"{self._breaker.wait_s:.0f} s",
                kind="circuit-open",
            )
        try:
            reply = await self._calls.once(method, path, **body)
        except CallError as error:
            if error.kind in _TROUBLE:
                self._breaker.failed()
            else:
                self._breaker.succeeded()
            raise
        self._breaker.succeeded()
        return reply.json()


def _judge_trouble(error: Exception) -> Again | None:
    return Again() if isinstance(error, CallError) and error.kind in _TROUBLE else None


def _say_wait(error: Exception, pause_s: float) -> None:
    logger.warning("waiting %.1f s for a desktop: %s", pause_s, error)


def _check_url(url: str, ca_file: Path | None) -> ssl.SSLContext | None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
        raise ConfigError("a gateway's address reads https://host:port, without user or password")
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
