"""The server in front of a real desktop: what only a screen, a user and processes can show."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from desktops.machines import as_root, desktop, require_desktop, until, window_of

from practicum.core.errors import MachineError
from practicum.desktops.computer import Key, Press, Text
from practicum.desktops.remote import OsworldComputer, RemoteComputer, connect
from practicum.desktops.server import running

PREFIX = "import pyautogui; import time; pyautogui.FAILSAFE = False; "


@pytest.fixture(autouse=True)
def _programs() -> None:
    require_desktop("xterm", "wmctrl", "xprop")


@asynccontextmanager
async def served(**more: Any) -> AsyncIterator[tuple[Any, RemoteComputer, aiohttp.ClientSession]]:
    """A desktop, a computer over its server, and a plain session with the server."""
    async with desktop() as machine, running(lambda: machine.computer) as address:
        headers = {"Authorization": f"Bearer {address.token}"}
        async with (
            await connect(address.url, token=address.token, **more) as remote,
            aiohttp.ClientSession(address.url, headers=headers) as session,
        ):
            yield machine, remote, session


async def execute(session: aiohttp.ClientSession, command: Any, **headers: str) -> Any:
    async with session.post("/execute", json={"command": command}, headers=headers) as reply:
        assert reply.status == 200
        return await reply.json()


async def act(session: aiohttp.ClientSession, code: str, **headers: str) -> Any:
    return await execute(session, ["python", "-c", PREFIX + code], **headers)


async def typist(remote: RemoteComputer) -> None:
    """A terminal that writes what is typed into a file."""
    await remote.launch(["xterm", "-e", "cat > typed"])
    window = await window_of(remote, "XTerm")
    await remote.activate_window(window.id)
    await remote.settle()


async def typed(remote: RemoteComputer, text: str) -> None:
    async def is_there() -> bool:
        return (await remote.run("cat typed")).output == text

    await until(is_there)


async def test_code_over_the_wire_types_what_it_says() -> None:
    async with served() as (_, remote, session):
        await typist(remote)
        done = await act(session, "pyautogui.write('hello <world> é\\n')")
        assert done == {"status": "success", "output": "", "error": "", "returncode": 0}
        await typed(remote, "hello <world> é\n")


async def test_an_action_sent_twice_is_typed_once() -> None:
    async with served() as (_, remote, session):
        await typist(remote)
        code = "pyautogui.write('once\\n')"
        for _ in range(3):
            await asyncio.gather(*(act(session, code, **{"X-Request-Id": "1"}) for _ in range(2)))
        await act(session, "pyautogui.write('end\\n')")
        await typed(remote, "once\nend\n")


async def test_a_program_that_stays_does_not_hold_its_starter() -> None:
    async with served() as (_, remote, session):
        async with asyncio.timeout(30):
            done = await execute(session, ["sh", "-c", "xterm & echo started"])
        assert done["output"] == "started\n"
        assert (await window_of(remote, "XTerm")).title


@pytest.mark.parametrize("kind", ["practicum", "osworld"])
async def test_a_computer_by_url_does_all_that_it_should(kind: Any) -> None:
    async with served(kind=kind) as (machine, remote, _):
        assert isinstance(remote, OsworldComputer) == (kind == "osworld")
        assert remote.screen == machine.computer.screen and remote.home == machine.computer.home
        await typist(remote)
        await remote.perform([Text("a <b> 'c' \\d\n"), Key("a"), Key("a", False), Text("\n")])
        await typed(remote, "a <b> 'c' \\d\na\n")
        await remote.set_clipboard("cöpied\n <x>")
        assert await remote.clipboard() == "cöpied\n <x>"
        (window,) = await remote.windows()
        (own,) = await machine.computer.windows()
        assert (int(window.id, 16), window.title, window.class_name) == (
            int(own.id, 16),
            own.title,
            own.class_name,
        )
        assert (window.width, window.height, window.is_active) == (own.width, own.height, True)
        await remote.close_window(window.id)

        async def is_closed() -> bool:
            return not await remote.windows()

        await until(is_closed)
        assert (await remote.accessibility()).role == "desktop frame"


async def test_the_tree_is_the_same_by_url() -> None:
    require_desktop("mousepad")
    async with served() as (machine, remote, _):
        await remote.launch(["mousepad", "--disable-server"])
        await window_of(remote, "ousepad")

        async def is_the_same() -> bool:
            await remote.settle()
            tree = await remote.accessibility()
            return bool(tree.children) and tree == await machine.computer.accessibility()

        await until(is_the_same)


@as_root
@pytest.mark.parametrize(
    "path", ["/etc/shadow", "../../../../etc/shadow", "~/../../../etc/shadow", "/proc/1/environ"]
)
async def test_a_file_that_the_desktops_user_may_not_read_is_refused(path: str) -> None:
    async with (
        served() as (_, _, session),
        session.post("/file", data={"file_path": path}) as reply,
    ):
        assert reply.status == 403 and (await reply.json())["kind"] == "permission"


@as_root
async def test_nothing_is_written_where_the_desktops_user_may_not() -> None:
    async with served() as (_, remote, session), desktop() as other:
        for path in (
            "/etc/practicum-test",
            "~/../../../etc/practicum-test",
            f"{other.computer.home}/x",
        ):
            with pytest.raises(PermissionError):
                await remote.write_file(path, b"x")
        with pytest.raises(PermissionError):
            await remote.read_file(f"{other.computer.home}/.bashrc")
        async with session.post(
            "/list_directory", json={"path": str(other.computer.home)}
        ) as reply:
            assert reply.status == 400
        assert not Path("/etc/practicum-test").exists()
        assert (await remote.run("id -u")).output.strip() != "0"


async def test_the_server_follows_its_machine_through_a_reset() -> None:
    async with served() as (machine, remote, session):
        await remote.write_file("~/left", b"x")
        await machine.reset()
        async with session.get("/practicum") as reply:
            home = (await reply.json())["home"]
        assert home == str(machine.computer.home)
        done = await execute(session, ["ls", "-A", "~/"])
        assert "left" not in done["output"] and ".bashrc" in done["output"]


@as_root  # otherwise all X servers of the user who runs the tests would go
async def test_a_dead_x_server_is_a_named_fault() -> None:
    async with served() as (_, remote, _):
        await remote.run(["pkill", "-KILL", "-x", "Xvfb"])
        with pytest.raises(MachineError) as caught:
            await remote.perform([Press(), Press(is_down=False)])
        assert caught.value.kind == "display"
        with pytest.raises(MachineError) as caught:
            await remote.screenshot()
        assert caught.value.kind == "display"
