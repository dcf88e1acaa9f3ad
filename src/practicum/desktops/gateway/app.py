"""The gateway's routes.

```
GET    /health                       open to all; says nothing but that it is up
GET    /describe                     hosts, time to live, version
GET    /metrics                      Prometheus text
POST   /leases                       {"wait_s", "key"} → 201 {"lease", "ttl_s", "ports", "host"}
GET    /leases                       the caller's own
POST   /leases/ID/heartbeat          200 {"ttl_s"}
DELETE /leases/ID                    200 {"released": true|false}
*      /leases/ID/server/…           OSWorld's wire protocol
*      /leases/ID/chromium/…         the browser's debugging port, WebSockets included
*      /leases/ID/vlc/…              VLC's HTTP interface
```

Everything but `/health` wants `Authorization: Bearer …`. A refusal of the gateway's own has
`X-Practicum-Fault` with its kind: 401 `unauthorized`, 404 `no-port`, 410 `lost-lease` or what
broke the desktop, 413, 429 `quota`, `busy` or `rate` with `Retry-After`, 502 `port-silent`, 503
`no-desktops`. A lease that is gone is never 404: that is how a desktop says that a file is not
there.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from importlib.metadata import version
from typing import Any

import aiohttp
from aiohttp import web

from practicum.core.errors import MachineError
from practicum.core.leases import now_s
from practicum.core.metrics import Metrics, Sample, render
from practicum.desktops.gateway.accounts import Account, Accounts
from practicum.desktops.gateway.audit import Audit
from practicum.desktops.gateway.desk import Desk, Lease
from practicum.desktops.gateway.doors import refusal
from practicum.desktops.gateway.hosts import Host
from practicum.desktops.gateway.relay import Passage, relay
from practicum.desktops.provider import BUSY

logger = logging.getLogger(__name__)

MAX_CONTROL_BYTES = 16 * 2**10
"""A body of the gateway's own routes; what is relayed has its own limit."""

_SENTENCES = {
    "desktops": "Desktops of a host by what they do.",
    "desktop_waiting": "Callers that wait for a desktop of a host.",
    "desktop_starts_total": "Desktops started.",
    "desktop_leases_total": "Desktops lent by a pool.",
    "desktop_leases_expired_total": "Desktops taken back by a pool because nobody renewed them.",
    "desktop_quarantined_total": "Desktops that failed, by what they were doing and why.",
    "desktop_abandoned_total": "Desktops that could not be taken down.",
    "gateway_leases": "Leases held.",
    "gateway_waiting": "Callers that wait for a lease.",
    "gateway_leases_total": "Leases given.",
    "gateway_leases_ended_total": "Leases ended, by reason.",
    "gateway_desktops_lost_total": "Desktops that broke while they were lent.",
    "gateway_host_faults_total": "Times a host gave no desktop for a reason other than being full.",
    "gateway_refused_total": "Requests refused, by kind.",
    "gateway_requests_total": "Requests passed on to desktops, by port and status class.",
    "gateway_request_seconds_total": "Time spent on them.",
}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class GatewayApp:
    """The web application of a gateway."""

    def __init__(
        self,
        hosts: Sequence[Host],
        accounts: Accounts,
        metrics: Metrics,
        audit: Audit,
        *,
        ttl_s: float,
        max_wait_s: float,
        max_waiting: int,
        max_body_bytes: int,
    ) -> None:
        self.desk = Desk(hosts, ttl_s, max_waiting, metrics, audit)
        self.metrics = metrics
        self._accounts = accounts
        self._audit = audit
        self._max_wait_s = max_wait_s
        self._max_body_bytes = max_body_bytes

    def build(self) -> web.Application:
        """Build the application."""
        app = web.Application(client_max_size=MAX_CONTROL_BYTES, middlewares=[self._admit])
        app.add_routes(
            [
                web.get("/health", self._health),
                web.get("/describe", self._describe),
                web.get("/metrics", self._metrics),
                web.post("/leases", self._take),
                web.get("/leases", self._list),
                web.post("/leases/{lease}/heartbeat", self._heartbeat),
                web.delete("/leases/{lease}", self._release),
                web.route("*", "/leases/{lease}/{port}/{tail:.*}", self._relay),
            ]
        )
        app.cleanup_ctx.append(self._run)
        app.on_shutdown.append(self._hang_up)
        return app

    @web.middleware
    async def _admit(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path == "/health":
            return await handler(request)
        account = self._accounts.find(request.headers.get("Authorization"))
        if account is None:
            self._audit.write(
                "unauthorized", remote=request.remote, method=request.method, path=request.path
            )
            return self._refuse(401, "unauthorized", "no or wrong token")
        try:
            return await handler(request)
        except MachineError as error:
            return self._refuse_for(error, account)
        except web.HTTPException as error:
            return self._refuse(error.status, "bad-request", error.reason)

    async def _run(self, _: web.Application) -> AsyncIterator[None]:
        self.desk.open()
        yield
        await self.desk.aclose()
        self._audit.close()

    async def _hang_up(self, _: web.Application) -> None:
        # Sockets that are being relayed end with their leases; connections are waited for.
        await self.desk.aclose()

    async def _health(self, _: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def _describe(self, _: web.Request) -> web.Response:
        hosts = [
            {
                "name": host.name,
                "size": host.size,
                "free": max(0, host.num_free),
                "resting": host.breaker.is_open,
            }
            for host in self.desk.hosts
        ]
        return web.json_response(
            {"practicum": version("practicum"), "ttl_s": self.desk.leases.ttl_s, "hosts": hosts}
        )

    async def _metrics(self, _: web.Request) -> web.Response:
        held: list[Sample] = [
            ("gateway_leases", {}, float(len(self.desk.leases))),
            ("gateway_waiting", {}, float(self.desk.num_waiting)),
        ]
        for host in self.desk.hosts:
            held += host.samples()
        text = render([*self.metrics.samples(), *held], _SENTENCES)
        return web.Response(text=text, content_type="text/plain", charset="utf-8")

    async def _take(self, request: web.Request) -> web.Response:
        account = self._account(request)
        wait_s, key = _read_wish(await request.read(), self._max_wait_s)
        lease = await self.desk.grant(account, key, wait_s)
        return web.json_response(self._show(lease), status=201)

    async def _list(self, request: web.Request) -> web.Response:
        own = [x for x in self.desk.leases.values() if x.account is self._account(request)]
        return web.json_response({"leases": [self._show(lease) for lease in own]})

    async def _heartbeat(self, request: web.Request) -> web.Response:
        lease = self.desk.find(self._account(request), request.match_info["lease"])
        await self.desk.renew(lease)
        return web.json_response({"ttl_s": self._ttl_s(lease)})

    async def _release(self, request: web.Request) -> web.Response:
        lease = self.desk.leases.get(request.match_info["lease"])
        is_own = lease is not None and lease.account is self._account(request)
        if lease is not None and is_own:
            await self.desk.end(lease, "released")
        return web.json_response({"released": is_own})

    async def _relay(self, request: web.Request) -> web.StreamResponse:
        account = self._account(request)
        lease = self.desk.find(account, request.match_info["lease"])
        port = request.match_info["port"]
        if port not in lease.held.doors:
            known = ", ".join(lease.held.doors)
            return self._refuse(
                404, "no-port", f"this desktop has no port {port!r}; it has: {known}"
            )
        wait_s = account.spend()
        if wait_s is not None:
            return self._refuse(429, "rate", f"{account.name} asks too often", wait_s)
        started_s = now_s()
        lease.num_requests += 1
        response = await self._pass_on(request, lease, port)
        self._count(request, lease, port, response.status, now_s() - started_s)
        return response

    def _account(self, request: web.Request) -> Account:
        """Who calls; nobody else is admitted."""
        account = self._accounts.find(request.headers.get("Authorization"))
        assert account is not None
        return account

    async def _pass_on(self, request: web.Request, lease: Lease, port: str) -> web.StreamResponse:
        is_socket = request.headers.get("Upgrade", "").lower() == "websocket"
        prefix = f"/leases/{lease.id}/{port}"
        passage = Passage(
            port,
            lease.held.doors[port],
            lease.session(port),
            f"{request.scheme}://{request.host}{prefix}",
            self._max_body_bytes,
            lambda: self.desk.leases.renew(lease.id),
            lambda status: self._judge(lease, status),
        )
        tail = request.rel_url.raw_path.removeprefix(f"{prefix}/")
        self.desk.leases.renew(lease.id)
        # A request is use and holds the lease; a socket may idle, and only its messages are.
        lease.num_users += not is_socket
        try:
            response = await relay(request, tail, passage)
        except (aiohttp.ClientError, OSError, RuntimeError) as error:
            # RuntimeError is what a session says that was closed because the lease ended.
            if isinstance(error, RuntimeError) and not passage.session.closed:
                raise
            return await self._explain(request, lease, port, error)
        finally:
            lease.num_users -= not is_socket
        self.desk.leases.renew(lease.id)
        return response

    async def _judge(self, lease: Lease, status: int) -> None:
        """A failure may mean that the desktop broke: the caller is told that instead."""
        if status >= 500:
            await self.desk.check(lease)
            if lease.fault is not None:
                raise lease.fault

    async def _explain(
        self, request: web.Request, lease: Lease, port: str, error: Exception
    ) -> web.Response:
        """Say why a desktop's port did not answer: it broke, it was taken back, or only that."""
        await self.desk.check(lease)
        self.desk.find(self._account(request), lease.id)
        what = f"port {port!r} of the desktop does not answer: {type(error).__name__}"
        return self._refuse(502, "port-silent", what)

    def _count(
        self, request: web.Request, lease: Lease, port: str, status: int, seconds: float
    ) -> None:
        self.metrics.count("gateway_requests_total", port=port, status=f"{status // 100}xx")
        self.metrics.count("gateway_request_seconds_total", seconds, port=port)
        prefix = f"/leases/{lease.id}/{port}"
        self._audit.write(
            "request",
            token=lease.account.name,
            remote=request.remote,
            lease=lease.id,
            host=lease.held.host.name,
            method=request.method,
            port=port,
            path=request.path.removeprefix(prefix),
            status=status,
            seconds=round(seconds, 4),
        )

    def _show(self, lease: Lease) -> dict[str, Any]:
        return {
            "lease": lease.id,
            "host": lease.held.host.name,
            "ttl_s": self._ttl_s(lease),
            "ports": sorted(lease.held.doors),
        }

    def _ttl_s(self, lease: Lease) -> float:
        return min(self.desk.leases.ttl_s, lease.ttl_s)

    def _refuse_for(self, error: MachineError, account: Account) -> web.Response:
        if error.kind in (BUSY, "quota"):
            self._audit.write("refused", token=account.name, kind=error.kind)
            return self._refuse(429, error.kind, str(error), 1)
        if error.kind == "no-desktops":
            self._audit.write("refused", token=account.name, kind=error.kind)
            rest_s = min((host.breaker.wait_s for host in self.desk.hosts), default=1.0)
            return self._refuse(503, error.kind, str(error), max(1, math.ceil(rest_s)))
        return self._refuse(410, error.kind, str(error))

    def _refuse(
        self, status: int, kind: str, message: str, retry_after_s: int | None = None
    ) -> web.Response:
        self.metrics.count("gateway_refused_total", kind=kind)
        return refusal(status, kind, message, retry_after_s)


def _read_wish(body: bytes, max_wait_s: float) -> tuple[float, str | None]:
    """Read what a lease is asked for with; anything unknown is refused."""
    try:
        wish = json.loads(body) if body.strip() else {}
    except ValueError as error:
        raise web.HTTPBadRequest(reason="the body is not JSON") from error
    if not isinstance(wish, dict) or set(wish) - {"wait_s", "key"}:
        raise web.HTTPBadRequest(reason="a lease is asked for with wait_s and key, both optional")
    wait_s, key = wish.get("wait_s", max_wait_s), wish.get("key")
    if isinstance(wait_s, bool) or not isinstance(wait_s, int | float) or not wait_s >= 0:
        raise web.HTTPBadRequest(reason="wait_s is a number of seconds")
    if key is not None and not (isinstance(key, str) and 8 <= len(key) <= 64):
        raise web.HTTPBadRequest(reason="key is a text of 8 to 64 characters")
    return min(float(wait_s), max_wait_s), key
