"""Whatever breaks between client and server: success, failure or a named fault.

No episode is lost, none is scored because of a fault, and no step is carried out twice.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache
from typing import Any

import pytest
from envs.http.agentgym_stand_ins import TextCraft, WebShop, serving
from envs.http.fault_proxy import QUICK, Fault, proxying, table

from practicum.core.env import Env
from practicum.core.episode import Episode
from practicum.core.message import Action, Observation
from practicum.core.task import Task
from practicum.envs import registry
from practicum.envs.http.app import DialectName, Terms
from practicum.envs.http.identity import index_task
from practicum.envs.http.remote import RemoteEnvironment, create
from practicum.envs.http.server import running
from practicum.envs.text.textcraft.tasks import make_task
from practicum.rollout.play import Attempt, play_many

TEXTCRAFT = registry.load_env("textcraft")
EXPERT = TEXTCRAFT.scripts["expert"]
TASKS = TEXTCRAFT.panel("dev").tasks[:6]
BOTH: tuple[DialectName, ...] = ("agentgym", "native")
NAMED = {
    "connection",
    "timeout",
    "server-error",
    "bad-reply",
    "lost-session",
}


class Logged:
    """TextCraft that writes down every step it carries out, by episode."""

    def __init__(self) -> None:
        self.episodes: list[tuple[str, list[str]]] = []
        self.num_open = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(TEXTCRAFT, name)

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncIterator[Env]:
        steps: list[str] = []
        self.episodes.append((task.id, steps))
        self.num_open += 1
        try:
            async with TEXTCRAFT.open(task) as env:
                yield LoggedEnv(env, steps)
        finally:
            self.num_open -= 1


class LoggedEnv:
    def __init__(self, env: Env, steps: list[str]) -> None:
        self._env = env
        self._steps = steps

    async def start(self) -> Observation:
        return await self._env.start()

    async def step(self, action: Action) -> Any:
        self._steps.append(action.text)
        return await self._env.step(action)


def is_step(chunk: bytes) -> bool:
    """A step over HTTP, or any message over a WebSocket (they are masked)."""
    return b"POST /step" in chunk or chunk[:1] == b"\x81"


def is_opening(chunk: bytes) -> bool:
    return any(word in chunk for word in (b"/create", b"/reset", b"GET /ws", b"/describe"))


@cache
def undisturbed() -> list[Episode]:
    """The same episodes in-process."""
    episodes: list[Episode] = []

    def play() -> None:
        asyncio.run(play_many(table(TEXTCRAFT, EXPERT, 50), map(Attempt, TASKS), episodes.append))

    thread = threading.Thread(target=play)  # the test's own event loop is running
    thread.start()
    thread.join()
    return episodes


async def play_all(environment: RemoteEnvironment, tasks: Any = TASKS) -> list[Episode]:
    episodes: list[Episode] = []
    await play_many(table(environment, EXPERT, 50), map(Attempt, tasks), episodes.append)
    return episodes


def check(episodes: list[Episode], logged: Logged | None = None, count: int = 6) -> Counter[str]:
    assert len(episodes) == count, "an episode was lost"
    kinds: Counter[str] = Counter()
    for episode in episodes:
        if episode.error is None:
            assert episode.is_success and episode.reward is not None
            kinds["success"] += 1
        else:
            assert episode.reward is None and not episode.is_success
            kinds[episode.error.kind] += 1
            assert episode.error.kind.removeprefix("env/") in NAMED, episode.error
    if logged is not None:
        plans = {e.task_id: [t.action.text for t in e.turns if t.action] for e in undisturbed()}
        for task_id, steps in logged.episodes:
            # The expert says the same every time, so a step done twice would stand out.
            assert steps == plans[task_id][: len(steps)]
    return kinds


@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize("dialect", BOTH)
@pytest.mark.parametrize("where", [is_step, is_opening])
async def test_our_server_behind_a_fault(
    fault: Fault, dialect: DialectName, where: Callable[[bytes], bool]
) -> None:
    logged = Logged()
    async with (
        running({"textcraft": logged}, Terms(dialect, ttl_s=2)) as (url, _server),
        proxying(url) as (proxy_url, proxy),
    ):
        remote = create(proxy_url, "textcraft", timeout_s=0.4, backoff=QUICK)
        proxy.plan(fault, where, nth=3 if where is is_step else 1)
        kinds = check(await play_all(remote), logged)
        await remote.aclose()
        assert proxy.num_faults == 1
        assert kinds["success"] >= 5
        if where is is_opening or (dialect == "native" and "reset" in fault):
            assert kinds["success"] == 6, "what is safe to repeat is repeated"
        if dialect == "agentgym" and where is is_step:
            assert kinds["success"] == 5, "a step is not repeated"


@pytest.mark.parametrize("fault", Fault)
async def test_agentgyms_server_behind_a_fault(fault: Fault) -> None:
    """The server is a stand-in for AgentGym's TextCraft."""
    stand_in = TextCraft(order=3)
    tasks = [make_task(stand_in.world, goal) for goal in stand_in.goals[:6]]
    async with serving(stand_in.app()) as url, proxying(url) as (proxy_url, proxy):
        remote = create(f"agentgym+{proxy_url}", "textcraft", timeout_s=0.4, backoff=QUICK)
        proxy.plan(fault, is_step, nth=4)
        kinds = check(await play_all(remote, tasks))
        await remote.aclose()
    assert proxy.num_faults == 1 and kinds["success"] == 5
    # The fault may have hit before or after the server acted, but only once.
    steps = Counter(route for route, _ in stand_in.calls)["step"]
    assert steps > 0 and not stand_in.games


@pytest.mark.parametrize("dialect", BOTH)
async def test_our_server_restarting_in_the_middle(dialect: DialectName) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    async with AsyncExitStack() as first:
        url, _ = await first.enter_async_context(
            running({"textcraft": TEXTCRAFT}, Terms(dialect), listener)
        )
        async with AsyncExitStack() as second, proxying(url) as (proxy_url, proxy):

            async def restart() -> None:
                await first.aclose()
                again = socket.create_server(("127.0.0.1", port))
                await second.enter_async_context(
                    running({"textcraft": TEXTCRAFT}, Terms(dialect), again)
                )

            proxy.before_fault = restart
            proxy.plan(None, is_step, nth=8)
            remote = create(proxy_url, "textcraft", timeout_s=1.0, backoff=QUICK)
            kinds = check(await play_all(remote))
            assert kinds["success"] < 6, kinds
            kinds = check(await play_all(remote))
            assert kinds["success"] == 6
            await remote.aclose()


async def test_a_restart_of_a_server_that_counts_from_zero() -> None:
    """A stand-in for AgentGym's TextCraft forgets its sessions and counts anew."""
    stand_in = TextCraft(order=5)
    tasks = [make_task(stand_in.world, goal) for goal in stand_in.goals[:6]]
    async with serving(stand_in.app()) as url, proxying(url) as (proxy_url, proxy):

        async def restart() -> None:
            stand_in.games.clear()
            stand_in.num_closed = 0

        remote = create(f"agentgym+{proxy_url}", "textcraft", timeout_s=0.5, backoff=QUICK)
        proxy.before_fault = restart
        proxy.plan(None, is_step, nth=4)
        kinds = check(await play_all(remote, tasks))
        assert kinds["success"] < 6 and kinds["env/lost-session"] >= 1
        await remote.aclose()


async def test_a_server_that_is_not_there_is_a_connection_fault() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    for url in (f"http://127.0.0.1:{port}", f"practicum+ws://127.0.0.1:{port}"):
        remote = create(url, "textcraft", timeout_s=0.5, backoff=QUICK)
        assert check(await play_all(remote)) == {"env/connection": 6}
        await remote.aclose()


@pytest.mark.parametrize("status", [422, 404])
async def test_a_request_the_server_does_not_take_is_not_repeated(status: int) -> None:
    from aiohttp import web

    num_calls = 0

    async def refuse(request: web.Request) -> web.Response:
        nonlocal num_calls
        num_calls += request.path == "/create"
        return web.json_response({"detail": "no"}, status=status)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", refuse)
    async with serving(app) as url:
        remote = create(f"agentgym+{url}", "webshop", timeout_s=0.5, backoff=QUICK)
        episodes: list[Episode] = []
        attempts = [Attempt(index_task("webshop", 0))]
        await play_many(table(remote, EXPERT), attempts, episodes.append)
        await remote.aclose()
    assert episodes[0].error is not None and episodes[0].error.kind == "env/bad-request"
    assert num_calls == 1


async def test_a_busy_answer_is_waited_for_as_asked() -> None:
    from aiohttp import web

    stand_in = WebShop()
    inner = stand_in.handler("create")
    times: list[float] = []

    async def create_later(request: web.Request) -> web.StreamResponse:
        times.append(asyncio.get_running_loop().time())
        if len(times) == 1:
            return web.Response(status=429, headers={"Retry-After": "0.3"})
        answer: web.StreamResponse = await inner(request)
        return answer

    app = web.Application()
    app.router.add_post("/create", create_later)
    app.router.add_post("/reset", stand_in.handler("reset"))
    async with serving(app) as url:
        remote = create(f"agentgym+{url}", "webshop", timeout_s=1, backoff=QUICK)
        async with remote.open(index_task("webshop", 0)) as env:
            await env.start()
        await remote.aclose()
    assert times[1] - times[0] >= 0.3
