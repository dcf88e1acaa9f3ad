"""Several worker processes behind one port, as `practicum serve` starts them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from envs.http.fault_proxy import QUICK

from practicum.core.errors import EnvError
from practicum.core.message import Action
from practicum.core.retry import Backoff
from practicum.envs import registry
from practicum.envs.contract import transcript, transcript_hash
from practicum.envs.http.remote import create

TEXTCRAFT = registry.load_env("textcraft")
TASK = TEXTCRAFT.panel("dev").tasks[0]
CAPACITY = 64
SERVE = f"""
import sys
from practicum.envs.http.server import serve
if __name__ == "__main__":
    serve(["textcraft"], dialect=sys.argv[1], workers=int(sys.argv[2]), capacity={CAPACITY},
          on_ready=lambda url: print(url, flush=True))
"""


@asynccontextmanager
async def served(
    folder: Path, dialect: str, workers: int, hash_seed: str = "0"
) -> AsyncIterator[tuple[str, subprocess.Popen[str]]]:
    script = folder / "serve_for_test.py"
    script.write_text(SERVE)
    command = [sys.executable, str(script), dialect, str(workers)]
    env = {**os.environ, "PYTHONHASHSEED": hash_seed}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)
    try:
        assert process.stdout is not None
        url = (await asyncio.to_thread(process.stdout.readline)).strip()
        assert url.startswith("http://127.0.0.1:")
        yield url, process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(process.wait, 20)
        assert process.stdout is not None
        process.stdout.close()


def children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in listed if "spawn_main" in _command(int(child))]


def _command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.parametrize("dialect", ["agentgym", "native"])
async def test_sessions_stick_to_their_worker(tmp_path: Path, dialect: str) -> None:
    tasks = TEXTCRAFT.panel("dev").tasks[:24]
    script = TEXTCRAFT.scripts["expert"]
    here = [await transcript(TEXTCRAFT, task, script) for task in tasks]
    async with served(tmp_path, dialect, 2) as (url, process):
        remote = create(url, "textcraft", backoff=QUICK)
        async with AsyncExitStack() as held:
            # More than one worker has places for, so that both have sessions however the
            # kernel deals the connections out.
            for _ in range(CAPACITY - len(tasks)):
                await held.enter_async_context(remote.open(TASK))
            there = await asyncio.gather(*(transcript(remote, task, script) for task in tasks))
        assert list(there) == here
        async with aiohttp.ClientSession() as http:
            async with http.get(f"{url}/metrics") as response:
                lines = (await response.text()).splitlines()
            async with http.get(f"{url}/health") as response:
                health = await response.json()
        opened = [line for line in lines if line.startswith("practicum_opened_total")]
        assert len(opened) == 2, "both workers had sessions"
        assert health["workers"] == 2 and health["sessions"] == 0
        if dialect == "native":
            await _check_lease_of_the_other_worker(url)
        workers = children(process.pid)
        assert len(workers) == 2
        await remote.aclose()
    assert process.returncode == 0
    assert not any(is_running(pid) for pid in workers)


async def _check_lease_of_the_other_worker(url: str) -> None:
    """A lease opened over one connection is played over many others, on both workers."""
    async with aiohttp.ClientSession() as http:
        async with http.ws_connect(f"{url}/ws") as socket:
            await socket.send_json({"type": "open", "env": "textcraft", "task": TASK.id})
            lease = (await socket.receive_json())["lease"]
        for seq in range(1, 13):
            async with http.ws_connect(f"{url}/ws") as socket:
                message = {"type": "step", "lease": lease, "seq": seq, "action": "get 1 apple"}
                await socket.send_json(message)
                assert (await socket.receive_json())["observation"]["text"] == "Got 1 apple"
        async with http.ws_connect(f"{url}/ws") as socket:
            await socket.send_json({"type": "close", "lease": lease})
            assert (await socket.receive_json())["type"] == "closed"


async def test_a_worker_that_dies_is_replaced_and_its_sessions_are_lost(tmp_path: Path) -> None:
    async with served(tmp_path, "native", 2) as (url, process):
        remote = create(url, "textcraft", timeout_s=5, backoff=QUICK)
        contexts = [remote.open(TASK) for _ in range(8)]
        envs = [await context.__aenter__() for context in contexts]
        os.kill(children(process.pid)[0], signal.SIGKILL)
        outcomes = [await _try_step(env) for env in envs]
        assert set(outcomes) <= {"played", "lost-session", "connection"}
        for context in contexts:
            await context.__aexit__(None, None, None)
        deadline = time.monotonic() + 20
        while len(children(process.pid)) < 2 and time.monotonic() < deadline:
            await asyncio.sleep(0.1)
        async with remote.open(TASK) as env:
            assert (await env.start()).text
        await remote.aclose()


@pytest.mark.parametrize(("dialect", "hash_seed"), [("agentgym", "1"), ("native", "2")])
async def test_64_sessions_of_one_task_hash_alike_whatever_the_hash_seed(
    tmp_path: Path, dialect: str, hash_seed: str
) -> None:
    script = TEXTCRAFT.scripts["random"]
    hashes = {transcript_hash(*await transcript(TEXTCRAFT, TASK, script))}
    async with served(tmp_path, dialect, 1, hash_seed) as (url, _):
        remote = create(url, "textcraft")
        played = await asyncio.gather(*(transcript(remote, TASK, script) for _ in range(64)))
        hashes |= {transcript_hash(*one) for one in played}
        await remote.aclose()
    assert len(hashes) == 1


@pytest.mark.parametrize("dialect", ["agentgym", "native"])
async def test_every_place_of_every_worker_can_be_taken(tmp_path: Path, dialect: str) -> None:
    async with served(tmp_path, dialect, 2) as (url, _):
        remote = create(url, "textcraft", backoff=Backoff(1))
        contexts = [remote.open(TASK) for _ in range(CAPACITY)]
        envs = [await context.__aenter__() for context in contexts]
        with pytest.raises(EnvError) as caught:
            async with remote.open(TASK):
                pass
        assert caught.value.kind == "busy"
        await asyncio.gather(*(env.start() for env in envs))
        assert {await _try_step(env) for env in envs} == {"played"}
        for context in contexts:
            await context.__aexit__(None, None, None)
        await remote.aclose()


async def _try_step(env: object) -> str:
    try:
        await env.step(Action("inventory"))  # type: ignore[attr-defined]
    except EnvError as error:
        return error.kind
    return "played"


async def test_workers_leave_when_the_parent_is_killed(tmp_path: Path) -> None:
    async with served(tmp_path, "native", 2) as (_, process):
        workers = children(process.pid)
        process.kill()
        deadline = time.monotonic() + 15
        while any(is_running(pid) for pid in workers) and time.monotonic() < deadline:
            await asyncio.sleep(0.1)
    assert not any(is_running(pid) for pid in workers)
