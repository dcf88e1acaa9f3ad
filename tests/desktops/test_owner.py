"""Nothing of a desktop outlives the process that owns it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from desktops.machines import as_root, desktop, require_desktop, until

OWNER = """
import asyncio, json, sys
from practicum.desktops.xvfb import DesktopOptions, XvfbMachine

async def main():
    machine = XvfbMachine()
    await machine.start()
    await machine.computer.launch("setsid nohup sleep 4712 >/dev/null 2>&1 & sleep 4712")
    await machine.computer.launch(["xterm"])
    uid = (await machine.computer.run(["id", "-u"])).output.strip()
    print(json.dumps([machine.keeper_pid, str(machine.computer.home), machine.display, uid]))
    sys.stdout.flush()
    await asyncio.sleep(1000)

asyncio.run(main())
"""


def processes_of(uid: str) -> list[str]:
    found = subprocess.run(["pgrep", "-u", uid, "-a"], capture_output=True, text=True, check=False)
    return [line for line in found.stdout.splitlines() if "<defunct>" not in line]


def identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_ino, found.st_ctime_ns


@as_root
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_when_the_owner_is_killed_all_of_its_desktop_goes(number: signal.Signals) -> None:
    require_desktop("xterm")
    owner = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE)
    assert owner.stdout is not None
    try:
        line = await asyncio.to_thread(owner.stdout.readline)
        keeper, home, display, uid = json.loads(line)
        its = processes_of(uid)
        assert len(its) > 5
        x_socket = Path(f"/tmp/.X11-unix/X{display[1:]}")
        socket = identity(x_socket)
    finally:
        owner.send_signal(number)
        owner.wait()
        owner.stdout.close()

    async def is_gone() -> bool:
        return not Path(f"/proc/{keeper}").exists()

    await until(is_gone)
    # The user is free again: somebody else's desktop may have it by now.
    assert not set(its) & set(processes_of(uid))
    assert not Path(home).parent.exists()
    # Somebody else may have the same display by now.
    assert not x_socket.exists() or identity(x_socket) != socket


@as_root
async def test_when_the_keeper_is_killed_stopping_still_removes_everything() -> None:
    require_desktop("xterm")
    async with desktop() as machine:
        computer = machine.computer
        await computer.launch("setsid nohup sleep 4713 >/dev/null 2>&1 &")
        uid = (await computer.run(["id", "-u"])).output.strip()
        home = Path(computer.home)
        os.kill(machine.keeper_pid, signal.SIGKILL)
        await machine.stop()
        assert processes_of(uid) == []
        assert not home.parent.exists()
