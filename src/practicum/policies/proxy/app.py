"""The proxy's routes.

```
GET  /health                                open to all
GET  /v1/models                             session or admin
POST [/v1]/chat/completions                 session   OpenAI's chat completions
POST [/v1]/responses                        session   OpenAI's responses
POST [/v1]/messages                         session   Anthropic's messages
POST /rl/set_reward                         session   {"interaction_id": null|ID, "reward"}
POST /rl/end_session                        session   → {"message", "interaction_count"}
POST /rl/start_session                      admin     {"task_id"} → {"session_id", "api_key"}
POST /grant_capacity                        admin     → {"capacity"}
POST /export_trajectories                   admin     {"session_id", "discount", "style"}
POST /set_version                           admin     {"version"}: of an upstream server's weights
GET  /sessions, GET|DELETE /sessions/ID     admin     what is on record, as JSON
GET  /metrics                               admin     Prometheus text
```

A key comes as `Authorization: Bearer …` or `x-api-key: …`. What a request may not ask for is a
400 that names it; a fault of the upstream is a 502 with its kind, and is kept on record.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from pydantic import Field

from practicum.core.errors import EpisodeError, PolicyError
from practicum.core.metrics import Metrics, Sample, render
from practicum.core.tokens import check_token
from practicum.policies.proxy.conversation import RefusedError
from practicum.policies.proxy.export import Style, make_samples, require_whole
from practicum.policies.proxy.forms import anthropic, chat, responses
from practicum.policies.proxy.forms.reading import Form, Reply, Strict, openai_error, read_body
from practicum.policies.proxy.record import describe, summarise, write_interaction
from practicum.policies.proxy.sessions import NOT_SET, Session, Sessions
from practicum.policies.proxy.upstream import Upstream

logger = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_SENTENCES = {
    "proxy_sessions": "Sessions held.",
    "proxy_sessions_total": "Sessions started.",
    "proxy_calls_total": "Answers put on record.",
    "proxy_withdrawn_total": "Answers that did not reach the agent and were taken off the record.",
    "proxy_refused_total": "Requests refused, by kind.",
    "proxy_faults_total": "Calls that broke, by kind.",
    "proxy_exported_total": "Sequences exported.",
}


@dataclass(frozen=True, slots=True)
class Terms:
    """On which terms a proxy is used."""

    admin_key: str = field(repr=False)
    ttl_s: float = 3600.0
    """A session that is not used for so long is forgotten."""
    max_sessions: int = 4096
    """Held at once."""
    capacity: int | None = None
    """Sessions that may start before more are granted; None: any number."""
    max_body_bytes: int = 64 * 2**20

    def __post_init__(self) -> None:
        check_token(self.admin_key, "the admin key")


class _StartBody(Strict):
    task_id: str = Field(min_length=1, max_length=512)
    api_key: str | None = None


class _RewardBody(Strict):
    interaction_id: str | None = None
    reward: float


class _ExportBody(Strict):
    session_id: str
    discount: float = Field(1.0, ge=0, le=1)
    style: Style = "individual"


class _VersionBody(Strict):
    version: int = Field(ge=0)


class ProxyApp:
    """The web application of a proxy."""

    def __init__(self, upstream: Upstream, terms: Terms) -> None:
        self.upstream = upstream
        self.sessions = Sessions(terms.ttl_s, terms.max_sessions, terms.capacity)
        self.metrics = Metrics()
        self._terms = terms

    def build(self) -> web.Application:
        """Build the application."""
        app = web.Application(
            client_max_size=self._terms.max_body_bytes, middlewares=[self._explain]
        )
        admin, own = self._for_admin, self._for_session
        app.add_routes(
            [
                web.get("/health", self._health),
                web.get("/v1/models", self._models),
                web.get("/models", self._models),
                web.post("/rl/set_reward", own(self._set_reward)),
                web.post("/rl/end_session", own(self._end_session)),
                web.post("/rl/start_session", admin(self._start_session)),
                web.post("/grant_capacity", admin(self._grant_capacity)),
                web.post("/export_trajectories", admin(self._export)),
                web.post("/set_version", admin(self._set_version)),
                web.get("/sessions", admin(self._list)),
                web.get("/sessions/{session}", admin(self._show)),
                web.delete("/sessions/{session}", admin(self._forget)),
                web.get("/metrics", admin(self._metrics)),
            ]
        )
        for path, form in FORMS.items():
            for prefix in ("", "/v1"):
                app.router.add_post(f"{prefix}/{path}", own(self._answering(form)))
        app.cleanup_ctx.append(self._run)
        return app

    @web.middleware
    async def _explain(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Turn whatever is refused into an answer of the form that was asked in."""
        try:
            return await handler(request)
        except RefusedError as refusal:
            error = refusal
        except web.HTTPException as unmet:
            kind = "too-large" if unmet.status == 413 else "bad-request"
            error = RefusedError(unmet.reason, kind=kind, status=unmet.status)
        self.metrics.count("proxy_refused_total", kind=error.kind)
        form = FORMS.get(request.path.removeprefix("/v1").strip("/"))
        write = openai_error if form is None else form.write_error
        return web.json_response(write(error), status=error.status)

    async def _run(self, _: web.Application) -> AsyncIterator[None]:
        sweeper = asyncio.create_task(self.sessions.sweep_for_ever())
        yield
        sweeper.cancel()
        with suppress(asyncio.CancelledError):
            await sweeper
        await self.upstream.aclose()

    def _for_admin(self, handler: Handler) -> Handler:
        async def admitted(request: web.Request) -> web.StreamResponse:
            if not self._is_admin(request):
                raise _unknown_key("this route wants the admin key")
            return await handler(request)

        return admitted

    def _for_session(
        self, handler: Callable[[web.Request, Session], Awaitable[web.StreamResponse]]
    ) -> Handler:
        async def admitted(request: web.Request) -> web.StreamResponse:
            session = self.sessions.of_key(_key(request))
            if session is None:
                raise _unknown_key("this route wants the key of a session (POST /rl/start_session)")
            session.num_users += 1
            try:
                return await handler(request, session)
            finally:
                session.num_users -= 1

        return admitted

    def _is_admin(self, request: web.Request) -> bool:
        given = _key(request).encode("utf-8", "surrogateescape")
        return hmac.compare_digest(given, self._terms.admin_key.encode())

    async def _health(self, _: web.Request) -> web.Response:
        return web.json_response({"status": "ok", "initialized": True})

    async def _models(self, request: web.Request) -> web.Response:
        if not self._is_admin(request) and self.sessions.of_key(_key(request)) is None:
            raise _unknown_key("this route wants any key there is")
        model = {
            "id": self.upstream.model,
            "object": "model",
            "created": 0,
            "owned_by": "practicum",
        }
        return web.json_response({"object": "list", "data": [model]})

    def _answering(
        self, form: Form
    ) -> Callable[[web.Request, Session], Awaitable[web.StreamResponse]]:
        async def answer(request: web.Request, session: Session) -> web.StreamResponse:
            session.require_open()
            ask = form.read(await request.read())
            keys = ask.keys()
            _, known = session.find(keys)
            call_id = form.prefix + secrets.token_hex(16)
            try:
                answers = await self.upstream.answer(ask, known)
                reply = Reply(call_id, self.upstream.model, int(time.time()), ask, answers)
                text = "".join(form.stream(reply)) if ask.is_streamed else form.write(reply)
            except RefusedError:
                raise
            except Exception as error:
                fault = session.fail(_named(error), keys[-1])
                self.metrics.count("proxy_faults_total", kind=fault.kind)
                raise RefusedError(fault.message, kind=fault.kind, status=502) from error
            session.record(call_id, ask, keys, answers)
            self.metrics.count("proxy_calls_total", len(answers))
            try:
                return await _send(request, text)
            except (ConnectionError, asyncio.CancelledError):
                # The agent hung up and will ask again: only what it has seen is its doing.
                session.withdraw(call_id)
                self.metrics.count("proxy_withdrawn_total", len(answers))
                raise

        return answer

    async def _set_reward(self, request: web.Request, session: Session) -> web.Response:
        body = read_body(_RewardBody, await request.read(), NOT_SET)
        session.set_reward(body.interaction_id, body.reward)
        return web.json_response({"message": "success"})

    async def _end_session(self, _: web.Request, session: Session) -> web.Response:
        session.end()
        return web.json_response({"message": "success", "interaction_count": len(session.calls)})

    async def _start_session(self, request: web.Request) -> web.Response:
        body = read_body(_StartBody, await request.read())
        if body.api_key is not None and hmac.compare_digest(
            body.api_key.encode(), self._terms.admin_key.encode()
        ):
            raise RefusedError("the admin key cannot be the key of a session", param="api_key")
        session, key = self.sessions.start(body.task_id, body.api_key)
        self.metrics.count("proxy_sessions_total")
        return web.json_response({"session_id": session.id, "api_key": key})

    async def _grant_capacity(self, _: web.Request) -> web.Response:
        return web.json_response({"capacity": self.sessions.grant()})

    async def _export(self, request: web.Request) -> web.StreamResponse:
        body = read_body(_ExportBody, await request.read())
        session = self.sessions.get(body.session_id)
        session.num_users += 1
        try:
            await session.ended.wait()
            require_whole(session)
            samples = make_samples(session, body.style, body.discount)
        except RefusedError:
            session.is_refused = True
            raise
        finally:
            session.num_users -= 1
        interactions = {sample.id: write_interaction(sample) for sample in samples}
        response = await _send(request, {"interactions": interactions})
        # Only now: what did not arrive can be asked for again.
        self.sessions.remove(session)
        self.metrics.count("proxy_exported_total", len(samples))
        return response

    async def _set_version(self, request: web.Request) -> web.Response:
        body = read_body(_VersionBody, await request.read())
        self.upstream.set_version(body.version)
        return web.json_response({"version": body.version})

    async def _list(self, _: web.Request) -> web.Response:
        return web.json_response({"sessions": [summarise(session) for session in self.sessions]})

    async def _show(self, request: web.Request) -> web.Response:
        return web.json_response(describe(self.sessions.get(request.match_info["session"])))

    async def _forget(self, request: web.Request) -> web.Response:
        session = self.sessions.get(request.match_info["session"])
        self.sessions.remove(session)
        return web.json_response(summarise(session))

    async def _metrics(self, _: web.Request) -> web.Response:
        held: list[Sample] = [("proxy_sessions", {}, float(len(self.sessions)))]
        text = render([*self.metrics.samples(), *held], _SENTENCES)
        return web.Response(text=text, content_type="text/plain", charset="utf-8")


FORMS: dict[str, Form] = {
    "chat/completions": chat.FORM,
    "responses": responses.FORM,
    "messages": anthropic.FORM,
}


async def _send(request: web.Request, body: str | dict[str, Any]) -> web.StreamResponse:
    """Send a reply, or the events of a stream; raises where the agent is gone."""
    response = (
        web.json_response(body)
        if isinstance(body, dict)
        else web.Response(
            text=body,
            content_type="text/event-stream",
            charset="utf-8",
            headers={"Cache-Control": "no-cache"},
        )
    )
    await response.prepare(request)
    await response.write_eof()
    return response


def _key(request: web.Request) -> str:
    """The key that a request carries, in either of the two ways."""
    scheme, _, key = request.headers.get("Authorization", "").partition(" ")
    return key if scheme.lower() == "bearer" else request.headers.get("x-api-key", "")


def _named(error: Exception) -> EpisodeError:
    if isinstance(error, EpisodeError):
        return error
    logger.error("an answer failed", exc_info=error)
    return PolicyError(f"{type(error).__name__}: {error}", kind="crash")


def _unknown_key(message: str) -> RefusedError:
    return RefusedError(f"no or wrong key: {message}", kind="unauthorized", status=401)
