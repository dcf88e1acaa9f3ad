"""The WebSocket protocol: leases, numbered steps, and episodes that outlive connections."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest
from envs.http.fault_proxy import QUICK, Fault, proxying

from practicum.core.env import Env
from practicum.core.errors import EnvError
from practicum.core.message import Action
from practicum.envs import registry
from practicum.envs.contract import transcript
from practicum.envs.http.app import Terms
from practicum.envs.http.remote import create
from practicum.envs.http.server import running

TEXTCRAFT = registry.load_env("textcraft")
ENVS = {"textcraft": TEXTCRAFT}
TASK = TEXTCRAFT.panel("dev").tasks[0]


async def ask(socket: aiohttp.ClientWebSocketResponse, **message: Any) -> Any:
    await socket.send_json(message)
    return await socket.receive_json()


async def test_a_repeated_number_gets_the_recorded_answer() -> None:
    async with (
        running(ENVS, Terms()) as (url, _),
        aiohttp.ClientSession() as http,
        http.ws_connect(f"{url}/ws") as socket,
    ):
        opened = await ask(socket, type="open", env="textcraft", task=TASK.id)
        lease = opened["lease"]
        step = {"type": "step", "lease": lease, "seq": 1, "action": "get 2 apple"}
        first = await ask(socket, **step)
        assert await ask(socket, **step) == first
        async with http.ws_connect(f"{url}/ws") as other:  # also over another connection
            assert await ask(other, **step) == first
        held = await ask(socket, type="step", lease=lease, seq=2, action="inventory")
        assert "[apple] (2)" in held["observation"]["text"]
        for seq in (1, 4):
            wrong = await ask(socket, type="step", lease=lease, seq=seq, action="inventory")
            assert wrong["type"] == "error" and wrong["kind"] == "bad-sequence"
        assert (await ask(socket, type="close", lease=lease))["type"] == "closed"
        assert (await ask(socket, type="close", lease=lease))["type"] == "closed"
        gone = await ask(socket, type="renew", lease=lease)
        assert gone["kind"] == "lost-session"


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"type": "fly"}', '{"type": "step"}', '{"type": "open", "env": 3}',
     '{"type": "open", "env": "textcraft", "task": {"id": "x"}}',
     '{"type": "open", "env": "textcraft", "task": null}'],
)  # fmt: skip
async def test_nonsense_is_answered_and_the_connection_stays(text: str) -> None:
    async with (
        running(ENVS, Terms()) as (url, server),
        aiohttp.ClientSession() as http,
        http.ws_connect(f"{url}/ws") as socket,
    ):
        await socket.send_str(text)
        assert (await socket.receive_json())["type"] == "error"
        opened = await ask(socket, type="open", env="textcraft", task=TASK.id)
        assert opened["type"] == "opened"
        assert len(server.leases) == 1


async def test_an_edited_task_is_not_played() -> None:
    from practicum.envs.http.wire import write_task

    task = write_task(TASK) | {"prompt": "Craft nothing."}
    async with (
        running(ENVS, Terms()) as (url, server),
        aiohttp.ClientSession() as http,
        http.ws_connect(f"{url}/ws") as socket,
    ):
        answer = await ask(socket, type="open", env="textcraft", task=task)
        assert answer["kind"] == "wrong-task" and len(server.leases) == 0


async def test_a_heartbeat_keeps_a_lease_while_the_policy_thinks() -> None:
    async with running(ENVS, Terms(ttl_s=0.4)) as (url, server):
        remote = create(url, "textcraft", backoff=QUICK)
        async with remote.open(TASK) as env:
            await env.start()
            await asyncio.sleep(1.2)
            assert (await env.step(Action("inventory"))).observation.text
            assert len(server.leases) == 1
        await remote.aclose()


async def test_an_episode_goes_on_over_another_connection() -> None:
    expert = TEXTCRAFT.scripts["expert"]
    here = await transcript(TEXTCRAFT, TASK, expert)
    async with running(ENVS, Terms()) as (url, server), proxying(url) as (proxy_url, proxy):
        for fault in (Fault.RESET_BEFORE, Fault.RESET_AFTER, Fault.HANG):
            remote = create(proxy_url, "textcraft", timeout_s=0.5, backoff=QUICK)
            proxy.plan(fault, lambda chunk: chunk[:1] == b"\x81", nth=3)
            assert await transcript(remote, TASK, expert) == here
            await remote.aclose()
        assert proxy.num_faults == 3
        assert len(server.leases) == 0


async def test_a_step_that_is_under_way_is_not_started_twice() -> None:
    slow = SlowTextCraft()
    async with running({"textcraft": slow}, Terms()) as (url, _):
        remote = create(url, "textcraft", timeout_s=0.15, backoff=QUICK)
        async with remote.open(TASK) as env:
            await env.start()
            assert (await env.step(Action("get 1 apple"))).observation.text == "Got 1 apple"
        await remote.aclose()
    assert slow.steps == ["get 1 apple"]


async def test_a_lease_on_a_server_that_restarted_is_lost() -> None:
    async with running(ENVS, Terms()) as (url, server):
        remote = create(url, "textcraft", backoff=QUICK)
        async with remote.open(TASK) as env:
            await env.start()
            await server.leases.aclose()
            with pytest.raises(EnvError) as caught:
                await env.step(Action("inventory"))
        assert caught.value.kind == "lost-session"
        await remote.aclose()


async def test_cancelled_episodes_give_their_leases_back() -> None:
    async with running(ENVS, Terms()) as (url, server):
        remote = create(url, "textcraft", backoff=QUICK)

        async def play() -> None:
            async with remote.open(TASK) as env:
                await env.start()
                while True:
                    await env.step(Action("inventory"))

        jobs = [asyncio.create_task(play()) for _ in range(10)]
        await asyncio.sleep(0.3)
        assert len(server.leases) == 10
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)
        assert len(server.leases) == 0
        await remote.aclose()


async def test_connections_are_kept_for_the_next_episode() -> None:
    async with running(ENVS, Terms()) as (url, server):
        remote = create(url, "textcraft")
        for _ in range(5):
            async with remote.open(TASK) as env:
                await env.start()
        assert len(server._sockets) == 1
        await remote.aclose()


async def test_one_client_serves_several_event_loops() -> None:
    async with running(ENVS, Terms()) as (url, _):
        remote = create(url, "textcraft")

        async def play() -> str:
            async with remote.open(TASK) as env:
                text = (await env.start()).text
            await remote.aclose()
            return text

        for _ in range(2):
            assert await asyncio.to_thread(lambda: asyncio.run(play()))


class SlowTextCraft:
    """TextCraft with steps that take longer than the client waits."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(TEXTCRAFT, name)

    def open(self, task: Any) -> Any:
        from contextlib import asynccontextmanager

        @asynccontextmanager
        async def opened() -> Any:
            async with TEXTCRAFT.open(task) as env:
                yield _SlowEnv(env, self.steps)

        return opened()


class _SlowEnv:
    def __init__(self, env: Env, steps: list[str]) -> None:
        self._env = env
        self._steps = steps
        self.start = env.start

    async def step(self, action: Action) -> Any:
        self._steps.append(action.text)
        await asyncio.sleep(0.35)
        return await self._env.step(action)
