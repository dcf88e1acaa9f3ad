"""Desktops in rooms of their own."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from desktops.machines import SMALL, require_desktop, until, window_of

from practicum.core.errors import MachineError
from practicum.desktops import xvfb
from practicum.desktops.namespaces import why_no_room
from practicum.desktops.xvfb import DesktopOptions, NamespaceMachine


@asynccontextmanager
async def room(**options: Any) -> AsyncIterator[NamespaceMachine]:
    require_desktop("xterm")
    if reason := why_no_room():
        pytest.skip(reason)
    machine = NamespaceMachine(DesktopOptions(screen=SMALL, **options))
    await machine.start()
    try:
        yield machine
    finally:
        await machine.stop()


async def test_a_room_sees_its_own_processes_files_and_net_only() -> None:
    async with room() as machine:
        computer = machine.computer
        assert (str(computer.home), machine.display) == ("/home/user", ":0")
        pids = (await computer.run("ls /proc | grep -E '^[0-9]+$' | wc -l")).output
        assert int(pids) < 20
        assert (await computer.run("id -un; hostname")).output == "user\ndesktop\n"
        assert not (await computer.run(["ls", str(Path(__file__).parent)])).output
        links = await computer.run("tail -n +3 /proc/net/dev | cut -d: -f1")
        assert links.output.split() == ["lo"]
        assert (await computer.run("touch /usr/here /etc/here")).exit_code != 0
        assert (await computer.run("touch /tmp/a /var/tmp/a /dev/shm/a ~/a")).exit_code == 0
        await computer.launch(["xterm"])
        await window_of(computer, "XTerm")
        assert (await computer.accessibility()).role == "desktop frame"
        assert (await computer.screenshot()).data


async def test_two_rooms_have_the_same_names_and_nothing_in_common() -> None:
    async with room() as one, room() as two:
        await one.computer.write_file("~/mine", b"1")
        await one.computer.write_file("/tmp/mine", b"1")
        assert one.display == two.display == ":0"
        for path in ("~/mine", "/tmp/mine"):
            with pytest.raises(FileNotFoundError):
                await two.computer.read_file(path)


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Temporary files go there; with a short name, as sockets need."""
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


async def test_a_temporary_folder_with_a_long_name_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / ("x" * 80)))
    with pytest.raises(MachineError, match="set TMPDIR"):
        await NamespaceMachine().start()


async def test_a_reset_room_is_as_new_and_leaves_nothing(temporary: Path, tmp_path: Path) -> None:
    template = tmp_path / "template"
    template.mkdir()
    (template / "plan.txt").write_text("first")
    async with room(template=template) as machine:
        await machine.computer.write_file("~/plan.txt", b"second")
        await machine.computer.run("rm ~/.bashrc; setsid nohup sleep 4714 >/dev/null 2>&1 &")
        await machine.reset()
        assert await machine.computer.read_file("~/plan.txt") == b"first"
        assert await machine.computer.read_file("~/.bashrc")
        assert (await machine.computer.run(["pgrep", "-x", "sleep"])).exit_code == 1
        assert len(list(temporary.iterdir())) == 2  # the room, and what its home lies over
    assert (template / "plan.txt").read_text() == "first"
    assert list(temporary.iterdir()) == []


OWNER = """
import asyncio, sys
from practicum.desktops.xvfb import NamespaceMachine

async def main():
    machine = NamespaceMachine()
    await machine.start()
    await machine.computer.launch("setsid nohup sleep 4715 >/dev/null 2>&1 &")
    print(machine.keeper_pid, machine._lower)
    sys.stdout.flush()
    await asyncio.sleep(1000)

asyncio.run(main())
"""


async def test_a_room_goes_when_its_owner_is_killed() -> None:
    async with room():
        owner = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE)
        assert owner.stdout is not None
        try:
            keeper, lower = owner.stdout.readline().decode().split()
        finally:
            owner.kill()
            owner.wait()
            owner.stdout.close()

        async def is_gone() -> bool:
            return not Path(f"/proc/{keeper}").exists()

        await until(is_gone)
        found = subprocess.run(["pgrep", "-f", "sleep 4715"], capture_output=True, check=False)
        assert found.stdout == b""
        assert not Path(lower).exists()


async def test_without_namespaces_the_reason_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xvfb, "why_no_room", lambda: "the kernel said no")
    with pytest.raises(
        MachineError, match="the kernel said no; the xvfb body needs none"
    ) as caught:
        await NamespaceMachine().start()
    assert caught.value.kind == "namespace"
