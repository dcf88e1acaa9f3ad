"""SciWorld on a server: sessions that nobody closes cost no JVM and no memory for long."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
from support import require_env

from practicum.envs import registry
from practicum.envs.http.app import Terms
from practicum.envs.http.server import running
from practicum.envs.text.sciworld.env import create

NUM_SESSIONS = 60
TTL_S = 2.0


async def open_and_die(url: str, task_ids: list[str]) -> None:
    """Open sessions over a WebSocket and hang up without closing one."""
    async with (
        aiohttp.ClientSession() as http,
        http.ws_connect(f"{url}/ws", max_msg_size=0) as socket,
    ):
        for task_id in task_ids:
            await socket.send_json({"type": "open", "env": "sciworld", "task": task_id})
            assert (await socket.receive_json())["type"] == "opened"


def resident_mb(pids: tuple[int, ...]) -> float:
    pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
    return pages * 4096 / 2**20


async def test_abandoned_sessions_give_their_jvms_back() -> None:
    require_env("sciworld")
    environment = create(max_jvms=1)
    tasks = [task.id for task in registry.load_env("sciworld").panel("dev").tasks[:NUM_SESSIONS]]
    terms = Terms("native", capacity=200, ttl_s=TTL_S)
    async with running({"sciworld": environment}, terms) as (url, server):
        await open_and_die(url, tasks)
        await until_empty(server.leases)
        pids, at_first_mb = environment.jvm_pids, resident_mb(environment.jvm_pids)
        assert len(pids) == 1
        await open_and_die(url, tasks)
        await until_empty(server.leases)
        assert environment.jvm_pids == pids
        assert resident_mb(pids) < at_first_mb + 150
    await environment.aclose()
    assert environment.jvm_pids == ()


async def until_empty(leases: object) -> None:
    for _ in range(600):
        if len(leases) == 0:  # type: ignore[arg-type]
            return
        await asyncio.sleep(0.05)
    raise AssertionError("sessions outlived their time to live")
