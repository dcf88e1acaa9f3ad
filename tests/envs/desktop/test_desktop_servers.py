"""Windows Agent Arena's servers as the desktops of episodes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from desktops.waa_stand_in import WindowsStandIn

from practicum.core.errors import ConfigError, MachineError
from practicum.desktops.computer import Screen
from practicum.envs.desktop.servers import WaaServers
from practicum.envs.registry import load_env

SCREEN = Screen(1280, 720)


async def test_a_server_has_one_episode_at_a_time_and_is_tidied_up_before(tmp_path: Path) -> None:
    windows = WindowsStandIn(tmp_path)
    at_once = []

    async def use(desktops: WaaServers) -> None:
        async with desktops.lease() as desk:
            at_once.append(len(at_once) - len(done))
            await desk.computer.pointer()
            done.append(1)

    done: list[int] = []
    async with windows.serving() as url:
        # Two sources, as in two processes: the lock is the machine's.
        sources = [WaaServers([url], SCREEN, wait_s=30) for _ in range(2)]
        async with asyncio.TaskGroup() as jobs:
            for desktops in sources:
                jobs.create_task(use(desktops))
    assert at_once == [0, 0]
    assert windows.requests.count("POST /setup/close_all") == 2
    assert windows.requests.count("POST /setup/clear_task_files") == 2


async def test_a_desktop_that_never_comes_free_or_has_another_size_is_a_fault(
    tmp_path: Path,
) -> None:
    async with WindowsStandIn(tmp_path).serving() as url:
        desktops = WaaServers([url], SCREEN, wait_s=0)
        async with desktops.lease():
            with pytest.raises(MachineError) as caught:
                async with desktops.lease():
                    pass
        assert caught.value.kind == "busy"
        with pytest.raises(MachineError, match="screen=1280x720") as caught:
            async with WaaServers([url], Screen(800, 600)).lease():
                pass
        assert caught.value.kind == "screen"


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="'localhost:5000' is no address of a server"):
        load_env("desktop", body="waa+localhost:5000")
