"""Java processes: few, shared, replaced when they die, gone when we are."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from practicum.core.errors import ConfigError, MachineError
from practicum.core.message import Action
from practicum.core.task import Task
from practicum.envs.text.sciworld import pool as pool_module
from practicum.envs.text.sciworld.env import SciWorld, create

LOOK = Action("look around")


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def some_task(environment: SciWorld) -> Task:
    return environment.panel("dev").tasks[0]


async def test_two_dozen_open_episodes_share_one_process(sciworld: SciWorld) -> None:
    task = some_task(sciworld)
    async with asyncio.TaskGroup() as group:
        entered = asyncio.Barrier(24)

        async def hold() -> None:
            async with sciworld.open(task) as env:
                await env.start()
                await entered.wait()
                assert len(sciworld.jvm_pids) == 1
                assert not (await env.step(LOOK)).is_refused

        for _ in range(24):
            group.create_task(hold())
    assert _num_worlds(sciworld) == 0


async def test_more_episodes_than_fit_are_a_named_fault(
    sciworld: SciWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "MAX_WORLDS", 1)
    task = some_task(sciworld)
    async with sciworld.open(task):
        with pytest.raises(MachineError) as caught:
            async with sciworld.open(task):
                pass
    assert caught.value.kind == "no-room"


async def test_a_closed_episode_leaves_no_java_object_behind(sciworld: SciWorld) -> None:
    task = some_task(sciworld)

    async def num_bound() -> int:
        assert sciworld._pool is not None
        engine = sciworld._pool.engines[0]

        def count(gateway: Any) -> int:
            holder = gateway.java_gateway_server.getGateway()
            bindings = holder.getBindings()
            size: int = bindings.size()
            gateway.detach(holder)
            gateway.detach(bindings)
            return size

        return await engine.jvm.run(count)

    sizes = []
    for _ in range(3):
        async with sciworld.open(task) as env:
            await env.start()
            for action in ("look around", "open door", "0", "help", "objects", "xyzzy"):
                await env.step(Action(action))
            await env.valid_actions()
        sizes.append(await num_bound())
    assert sizes[0] == sizes[1] == sizes[2]


async def test_cancelled_work_lets_go_of_its_world(sciworld: SciWorld) -> None:
    task = some_task(sciworld)

    async def play() -> None:
        async with sciworld.open(task) as env:
            await env.start()
            while True:
                await env.step(Action("wait"))

    for delay_s in (0.0, 0.05, 0.5):
        playing = asyncio.create_task(play())
        await asyncio.sleep(delay_s)
        playing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await playing
    assert _num_worlds(sciworld) == 0
    async with sciworld.open(task) as env:
        await env.start()


async def test_java_that_cannot_run_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho Could not reserve enough space\nexit 1\n")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    environment = create()
    for _ in range(2):
        with pytest.raises(ConfigError, match="Could not reserve enough space"):
            async with environment.open(some_task(environment)):
                pass
    await environment.aclose()


async def test_a_process_that_dies_breaks_its_own_episodes_only_and_is_replaced() -> None:
    environment = create(max_jvms=2)
    task = some_task(environment)
    try:
        async with environment.open(task) as victim, environment.open(task) as bystander:
            await asyncio.gather(victim.start(), bystander.start())
            first, second = environment.jvm_pids
            os.kill(first, signal.SIGKILL)
            with pytest.raises(MachineError) as caught:
                await victim.step(LOOK)
            assert caught.value.kind == "jvm-died"
            with pytest.raises(MachineError):
                await victim.step(LOOK)
            assert not (await bystander.step(LOOK)).is_refused
            async with environment.open(task) as newcomer:
                await newcomer.start()
                assert second in environment.jvm_pids
                assert first not in environment.jvm_pids
            pids = environment.jvm_pids
    finally:
        await environment.aclose()
    assert environment.jvm_pids == ()
    assert not any(map(is_running, (first, *pids)))
    await environment.aclose()


async def test_no_process_outlives_a_parent_that_is_killed() -> None:
    code = """
import asyncio
from practicum.envs.text.sciworld.env import create

async def main():
    environment = create()
    async with environment.open(environment.panel("dev").tasks[0]):
        print(*environment.jvm_pids, flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE
    )
    assert parent.stdout is not None
    [pid] = map(int, (await parent.stdout.readline()).split())
    assert is_running(pid)
    parent.kill()
    await parent.communicate()
    deadline = time.monotonic() + 20
    while is_running(pid) and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
    assert not is_running(pid)


def _num_worlds(environment: SciWorld) -> int:
    assert environment._pool is not None
    return sum(engine.num_worlds for engine in environment._pool.engines)
