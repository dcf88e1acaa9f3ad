"""AgentGym's HTTP, server side: its clients play our environments without noticing.

Routes, request and reply fields are those of the environment's row in `dialects`. Beyond
them there is `/reset_task` (by task id or content), `/close` everywhere, and in replies the
extra key of `wire` with what AgentGym has no words for. What differs on purpose:

- a session is never shared, is freed when closed and when its time to live is over, and has
  a random id, so that an old client never meets a new session;
- after its end an episode takes no more steps;
- an index past the end is refused, except in TextCraft, where it begins anew as it does there;
- errors say what and why: `{"error", "kind", "boundary"}`, at 200 where AgentGym answers so,
  else with 404 (lost session), 409 (not playing), 422 (bad request) or 500;
- 429 with `Retry-After` when every place is taken.

Indices count the panel `legacy`, else `all`, else train, dev and test in a row.
"""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from aiohttp import web

from practicum.core.env import Environment, StepResult
from practicum.core.errors import EnvError, EpisodeError
from practicum.core.message import Action, Observation
from practicum.core.task import Task
from practicum.envs.http import wire
from practicum.envs.http.dialects import ACTIONS_LINE, Dialect, Pays, dialect_of, read_text
from practicum.envs.http.leases import BusyError, Lease, LeaseTable
from practicum.envs.http.peers import Peers
from practicum.envs.http.taskbook import TaskBook

Body = Mapping[str, Any]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_STATUS = {"lost-session": 404, "not-playing": 409, "bad-request": 422, "unknown-task": 422}
_MISSING = object()


class AgentGymService:
    """Serves one environment in its dialect."""

    def __init__(self, environment: Environment, leases: LeaseTable, peers: Peers) -> None:
        self.dialect = dialect_of(environment.id)
        self._environment = environment
        self._leases = leases
        self._peers = peers
        self._book = TaskBook(environment)
        self._num_created = 0

    def routes(self, path: str) -> list[web.RouteDef]:
        """All routes, under a path."""
        on_lease = self._on_lease
        return [
            web.post(f"{path}/create", self._create),
            web.post(f"{path}/reset", on_lease(self._reset)),
            web.post(f"{path}/reset_task", on_lease(self._reset_task)),
            web.post(f"{path}/step", on_lease(self._step)),
            web.post(f"{path}/close", self._close),
            web.get(f"{path}/observation", on_lease(self._observation)),
            web.get(f"{path}/detail", on_lease(self._detail)),
            web.get(f"{path}/available_actions", on_lease(self._available_actions)),
            web.get(f"{path}/instruction_text", on_lease(self._instruction)),
            web.get(f"{path}/task_description", on_lease(self._instruction)),
            web.post(f"{path}/render", on_lease(self._render)),
            web.get(f"{path}/list_envs", self._list),
        ]

    async def _create(self, request: web.Request) -> web.Response:
        try:
            body = await _read_body(request)
            try:
                lease = self._leases.grant(self._environment)
            except BusyError:
                if response := await self._peers.pass_on_to_any(request):
                    return response
                raise
            if not self.dialect.starts_at_create or wire.EXTRA in body:
                return self._created(lease, {})
            index = body.get("id", self._num_created)
            self._num_created += 1
            try:
                task = self._book.at(index if isinstance(index, int) else 0, wraps=True)
                first = await self._leases.start(lease, task)
            except BaseException:
                await self._leases.close(lease.id)
                raise
            return self._created(lease, {"observation": first.text, "reward": 0, "done": False})
        except EpisodeError as error:
            return self._refuse(error)

    def _created(self, lease: Lease, more: Body) -> web.Response:
        key = self.dialect.created_key
        return _respond(lease.id if key is None else {key: lease.id, **more})

    async def _close(self, request: web.Request) -> web.StreamResponse:
        try:
            lease_id, _ = await self._address(request)
        except EpisodeError as error:
            return self._refuse(error)
        owner = lease_id % self._leases.num_workers
        if owner != self._leases.worker:
            return await self._peers.pass_on(owner, request)
        return _respond(await self._leases.close(lease_id))

    async def _list(self, _: web.Request) -> web.Response:
        return _respond(self._leases.ids())

    def _on_lease(self, handle: Callable[[Lease, Body], Awaitable[Any]]) -> Handler:
        """Make a route of a function on a lease: find it, here or elsewhere; name errors."""

        async def route(request: web.Request) -> web.StreamResponse:
            try:
                lease_id, body = await self._address(request)
                owner = lease_id % self._leases.num_workers
                if owner != self._leases.worker:
                    return await self._peers.pass_on(owner, request)
                return _respond(await handle(self._leases.find(lease_id), body))
            except EpisodeError as error:
                return self._refuse(error)

        return route

    async def _address(self, request: web.Request) -> tuple[int, Body]:
        key = self.dialect.session_key
        if request.method == "GET":
            text = request.query.get(key, "")
            if not text.lstrip("-").isdigit() or len(text) > 20:
                raise _bad_field("query", key, text or _MISSING)
            return int(text), {}
        body = await _read_body(request)
        return _field(body, key, int), body

    async def _reset(self, lease: Lease, body: Body) -> Any:
        key = self.dialect.index_key
        # TextCraft's index may be left out, as may WebShop's.
        index = _field(body, key, int) if body.get(key) is not None else 0
        task = self._book.at(index, wraps=self.dialect.wraps)
        first = await self._leases.start(lease, task)
        return write_first(self.dialect, lease.id, task, first)

    async def _reset_task(self, lease: Lease, body: Body) -> Any:
        task = self._book.find(body.get("task"))
        first = await self._leases.start(lease, task)
        shown = wire.write_observation(first)
        return {"task": task.id, "observation": shown, "state": lease.state}

    async def _step(self, lease: Lease, body: Body) -> Any:
        action = Action(_field(body, "action", str))
        result = await self._leases.step(lease, action)
        return write_step(self.dialect, result, lease.state, lease.earned)

    async def _observation(self, lease: Lease, _: Body) -> Any:
        shown = _shown(lease).text
        if self.dialect.pays is Pays.AT_GOAL:  # BabyAI answers with all it has
            return await self._detail(lease, {})
        return shown

    async def _detail(self, lease: Lease, _: Body) -> Any:
        reward = lease.result.reward if lease.result else 0.0
        return {
            "observation": _shown(lease).text,
            "reward": reward,
            "score": lease.earned,
            "done": lease.is_over,
            "deleted": False,
        }

    async def _available_actions(self, lease: Lease, _: Body) -> Any:
        return _split_actions(_shown(lease).text)[1]

    async def _instruction(self, lease: Lease, _: Body) -> Any:
        _shown(lease)
        return lease.task.prompt if lease.task else ""

    async def _render(self, lease: Lease, _: Body) -> Any:
        images = wire.write_images(_shown(lease))
        if not images:
            raise EnvError(f"{self._environment.id} was started without images", kind="no-image")
        return f"data:{images[0]['media_type']};base64,{images[0]['data']}"

    def _refuse(self, error: EpisodeError) -> web.Response:
        value = wire.write_error(error)
        if isinstance(error, BusyError):
            wait_s = str(math.ceil(error.retry_after_s))
            return _respond(value, 429, {"Retry-After": wait_s})
        if error.kind == "malformed":
            value = value | {"detail": value["error"]}
            return _respond(value | {"kind": "bad-request"}, 422)
        is_in_body = self.dialect.error_style == "body"
        return _respond(value, 200 if is_in_body else _STATUS.get(error.kind, 500))


def write_first(dialect: Dialect, lease_id: int, task: Task, first: Observation) -> Any:
    """Write the reply to a reset in AgentGym's form."""
    if dialect.first_form == "text":
        return first.text
    if dialect.first_form == "pair":
        return [first.text, None]
    text, actions = _split_actions(first.text) if dialect.lists_actions else (first.text, [])
    reply: dict[str, Any] = {dialect.session_key: lease_id, "task_type": task.difficulty}
    for key in dialect.first_keys[:-1]:
        reply[key], _, text = text.partition("\n")
    reply[dialect.first_keys[-1]] = text
    reply |= {"reward": 0, "score": 0, "done": False, "deleted": False}
    if dialect.lists_actions:
        reply["available_actions"] = actions
    if dialect.pays is Pays.SCORE:
        reply |= {"task_name": task.data.get("task", ""), "var_num": task.data.get("variation", 0)}
    reply[wire.EXTRA] = {"task": task.id}
    if first.images:
        reply[wire.EXTRA]["images"] = wire.write_images(first)
    return reply


def write_step(
    dialect: Dialect, result: StepResult, state: str | None, earned: float
) -> dict[str, Any]:
    """Write the reply to a step in AgentGym's form, with ours beside it."""
    text = result.observation.text
    scale = 100 if dialect.pays is Pays.SCORE else 1
    reply: dict[str, Any] = {
        "reward": result.reward * scale,
        "score": earned * scale,
        dialect.done_keys[0]: result.is_done,
    }
    for key in dialect.done_keys[1:]:
        reply[key] = False
    if dialect.lists_actions:
        reply[dialect.text_key], reply["available_actions"] = _split_actions(text)
    else:
        reply[dialect.text_key] = text
    if dialect.error_style == "status":
        reply["info"] = None
    extra = wire.write_verdict(result, state)
    if dialect.lists_actions and read_text(dialect, reply) != text:
        extra["text"] = text
    if result.observation.images:
        extra["images"] = wire.write_images(result.observation)
    reply[wire.EXTRA] = extra
    return reply


def _split_actions(text: str) -> tuple[str, list[str]]:
    before, mark, listed = text.rpartition(ACTIONS_LINE)
    separator = ", " if ", " in listed else ","
    return (before, listed.split(separator)) if mark and listed else (text, [])


def _shown(lease: Lease) -> Observation:
    if lease.observation is None:
        raise EnvError(f"session {lease.id} was not reset yet", kind="not-playing")
    return lease.observation


async def _read_body(request: web.Request) -> dict[str, Any]:
    content = await request.read()
    try:
        body = json.loads(content) if content else {}
    except ValueError as error:
        raise EnvError(f"the body is not JSON: {error}", kind="malformed") from error
    if not isinstance(body, dict):
        raise EnvError("the body is not a JSON object", kind="malformed")
    return body


def _field(body: Body, key: str, kind: type) -> Any:
    value = body.get(key, _MISSING)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise _bad_field("body", key, value)
    return value


def _bad_field(where: str, key: str, value: Any) -> EnvError:
    is_missing = value is _MISSING
    problem = "is missing" if is_missing else f"is a {type(value).__name__}"
    return EnvError(f"{where} field {key!r} {problem}", kind="malformed")


def _respond(
    value: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    return web.Response(
        body=wire.write(value).encode(),
        status=status,
        headers=headers,
        content_type="application/json",
    )
