"""Computers behind a URL: ours, OSWorld's and Windows Agent Arena's, and what can go wrong."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path, PurePosixPath
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from desktops.paper import TREE, PaperComputer
from desktops.waa_stand_in import HOME, WindowsStandIn

from practicum.core.errors import ConfigError, MachineError
from practicum.core.retry import Backoff
from practicum.desktops.computer import Key, Move, Press, Screen, Scroll, Text, Wait, Window
from practicum.desktops.remote import (
    OsworldComputer,
    RemoteComputer,
    ServerKind,
    WaaComputer,
    connect,
)
from practicum.desktops.remote.osworld import read_windows
from practicum.desktops.server import Terms, running

QUICK = Backoff(attempts=3, first_wait_s=0.01, longest_wait_s=1.0)


@pytest.fixture
async def paper(tmp_path: Path) -> AsyncIterator[PaperComputer]:
    computer = PaperComputer(tmp_path)
    yield computer
    await computer.stop()


@asynccontextmanager
async def reached(
    computer: PaperComputer, kind: ServerKind | None = None
) -> AsyncIterator[RemoteComputer]:
    async with (
        running(lambda: computer, Terms(is_open=True)) as address,
        await connect(address.url, kind=kind, backoff=QUICK) as remote,
    ):
        yield remote


async def test_our_own_server_loses_nothing(paper: PaperComputer) -> None:
    async with reached(paper) as remote:
        assert type(remote) is RemoteComputer
        assert remote.screen == Screen(800, 600) and remote.home == PurePosixPath(paper.home)
        assert await remote.screenshot() == await paper.screenshot()
        bare = await paper.screenshot("jpeg", cursor=False)
        assert await remote.screenshot("jpeg", cursor=False) == bare
        assert await remote.settle() is True
        assert await remote.settle(quiet_s=1, timeout_s=0.5) is False
        inputs = [Move(1, 2), Press("right"), Key("a"), Text("é < 中"), Scroll(-1, 2), Wait(0.01)]
        await remote.perform(inputs)
        assert paper.inputs == inputs and await remote.pointer() == (1, 2)
        await remote.set_clipboard("cöpied")
        assert await remote.clipboard() == "cöpied"
        assert list(await remote.windows()) == paper.shown
        await remote.activate_window("0x2")
        await remote.close_window("0x2")
        assert paper.activated == ["0x2"] and len(await remote.windows()) == 1
        assert await remote.accessibility() == TREE


@pytest.mark.parametrize("kind", [None, "osworld"])
async def test_commands_and_files(paper: PaperComputer, kind: ServerKind | None) -> None:
    async with reached(paper, kind) as remote:
        done = await remote.run(["sh", "-c", "cat; echo no >&2; exit 3"], stdin=b"\xc3\xa9 in")
        assert (done.exit_code, done.output, done.error) == (3, "é in", "no\n")
        assert (await remote.run("echo $HOME | tr -d x")).output.strip()
        await remote.write_file("~/a b/c", b"\x00\xff")
        assert await remote.read_file("~/a b/c") == b"\x00\xff"
        assert (await remote.run("pwd", cwd="~/a b")).output == f"{paper.home}/a b\n"
        with pytest.raises(FileNotFoundError):
            await remote.read_file("~/none")
        with pytest.raises(MachineError) as caught:
            await remote.run(["sleep", "9"], timeout_s=0.2)
        assert caught.value.kind == "timeout"
        await remote.launch(["sleep", "60"])
        assert paper.started
        with pytest.raises(MachineError):
            await remote.launch(["no-such-program"])


async def test_osworlds_routes_are_enough_for_input(paper: PaperComputer) -> None:
    async with reached(paper, "osworld") as remote:
        assert type(remote) is OsworldComputer and remote.screen == Screen(800, 600)
        await remote.perform([Move(1, 2), Press(), Press(is_down=False), Text("a<b\n")])
        await remote.perform([Key("control"), Key("c"), Scroll(2, -1), Wait(0.01)])
        done = [one for one in paper.inputs if one != Wait(0.02)]
        comma = [Key("shift"), Key(","), Key(",", False), Key("shift", False)]
        assert done == [
            *(Move(1, 2), Press(), Press(is_down=False), Text("a"), *comma, Text("b\n")),
            *(Key("ctrl"), Key("c"), Scroll(up=2), Scroll(right=-1), Wait(0.01)),
        ]
        assert (await remote.screenshot("jpeg")).media_type == "image/jpeg"
        assert await remote.settle(quiet_s=0.15) is True
        assert await remote.accessibility() == TREE
        for inputs, error in (([Move(800, 1)], ValueError), ([Key("nokey")], ValueError)):
            with pytest.raises(error):
                await remote.perform(inputs)
        with pytest.raises(MachineError) as caught:
            await remote.perform([Text("é")])
        assert caught.value.kind == "unsupported"


WMCTRL = """\
0x00600003  0 10   37   640  480  mousepad.Mousepad     desk a.txt - Mousepad
0x00800002 -1 -5   0    945  1060 chromium (/tmp/.config/ch).Chromium  desk hi  there - Chromium
0x00a00001  0 0    0    1    1    N/A                   N/A N/A
_NET_ACTIVE_WINDOW(WINDOW): window id # 0x600003
_NET_CLIENT_LIST_STACKING(WINDOW): window id # 0xa00001, 0x800002, 0x600003
"""


def test_what_wmctrl_says_is_read() -> None:
    none, browser, editor = read_windows(WMCTRL)
    assert editor == Window(
        "0x00600003", "a.txt - Mousepad", "mousepad.Mousepad", 10, 37, 640, 480, True
    )
    assert (browser.title, browser.x) == ("hi  there - Chromium", -5)
    assert browser.class_name == "chromium (/tmp/.config/ch).Chromium"
    assert none.class_name == "N/A" and not none.is_active


async def test_windows_agent_arena(tmp_path: Path) -> None:
    windows = WindowsStandIn(tmp_path)
    async with windows.serving() as url, await connect(url, backoff=QUICK) as remote:
        assert isinstance(remote, WaaComputer)
        assert (remote.screen, remote.home) == (Screen(1280, 720), HOME)
        assert (await remote.screenshot()).media_type == "image/png"
        await remote.perform([Move(3, 4), Press(), Press(is_down=False), Text(r"C:\new <x>")])
        assert windows.calls == [
            ["moveTo", [3, 4], {}],
            ["mouseDown", [], {"button": "left"}],
            ["mouseUp", [], {"button": "left"}],
            ["write", [r"C:\new <x>"], {}],
        ]
        assert await remote.pointer() == (3, 4)
        (window,) = (await remote.accessibility()).children
        assert (window.name, window.box) == ("Notepad", (10, 20, 300, 200))
        await remote.set_clipboard("cöpied \\ 'x'")
        assert await remote.clipboard() == "cöpied \\ 'x'"
        shown = await remote.windows()
        assert [(one.id, one.title, one.is_active) for one in shown] == [
            ("5", "Explorer", False),
            ("7", "Notepad", True),
        ]
        await remote.activate_window("5")
        await remote.close_window("7")
        assert (tmp_path / "windows").read_text() == "activate 5\nclose 7\n"


async def test_commands_and_files_of_windows_agent_arena(tmp_path: Path) -> None:
    windows = WindowsStandIn(tmp_path)
    async with windows.serving() as url, await connect(url, kind="waa", backoff=QUICK) as remote:
        assert isinstance(remote, WaaComputer)
        # Backslashes stay, and so does the word that makes /execute_windows fail.
        done = await remote.run(["printf", "%s", r"C:\a\b error"])
        assert (done.exit_code, done.output) == (0, r"C:\a\b error")
        done = await remote.run("cat; echo no >&2; exit 2", stdin=b"in")
        assert (done.exit_code, done.output, done.error) == (2, "in", "no\n")
        with pytest.raises(MachineError) as caught:
            await remote.run(["sleep", "9"], timeout_s=0.2)
        assert caught.value.kind == "timeout"
        with pytest.raises(MachineError):
            await remote.run(["no-such-program"])
        await remote.write_file("~/Downloads/a.txt", b"\x00x")
        assert (tmp_path / "Users/Docker/Downloads/a.txt").read_bytes() == b"\x00x"
        assert await remote.read_file(r"C:\Users\Docker\Downloads\a.txt") == b"\x00x"
        with pytest.raises(FileNotFoundError):
            await remote.read_file("~/none")
        await remote.launch(["notepad.exe", "x"])
        assert windows.launched == [["notepad.exe", "x"]]
        await remote.close_all()
        await remote.clear_task_files()
        assert not (tmp_path / "Users/Docker/Downloads/a.txt").exists()
        assert not any("execute_windows" in request for request in windows.requests)


async def test_the_stand_in_has_the_quirks_of_the_original(tmp_path: Path) -> None:
    async with WindowsStandIn(tmp_path).serving() as url, aiohttp.ClientSession(url) as session:

        async def post(path: str, **body: Any) -> tuple[int, str]:
            async with session.post(path, json=body) as reply:
                return reply.status, await reply.text()

        assert await post("/execute_windows", command="print(1)") == (200, '{"status": "success"}')
        assert (await post("/execute_windows", command="print('no Error')"))[0] == 500
        assert (await post("/execute_windows", command="1 / 0"))[0] == 500
        _, said = await post("/execute", command=r"printf %s C:\new")
        assert json.loads(said)["output"] == "C:new"
        assert (await post("/execute", command=["no-such-program"]))[0] == 500
        assert (await post("/revert_to_snapshot"))[0] == 501
        async with session.get("/terminal") as reply:
            assert reply.status == 500


Answer = Callable[[web.Request], web.StreamResponse | None]


@asynccontextmanager
async def answering(answer: Answer) -> AsyncIterator[tuple[RemoteComputer, list[str]]]:
    """A server of ours that first lets `answer` have its say, and the paths it was asked for."""
    asked: list[str] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        if request.path == "/practicum":
            body = {"server": "practicum", "screen": [8, 6], "home": "/home/u"}
            return web.json_response(body)
        asked.append(request.path)
        await request.read()
        response = answer(request)
        if response is None:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        return response

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        async with await connect(url, backoff=QUICK, timeout_s=0.5) as remote:
            yield remote, asked
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, {"error": "no"}, "unauthorized"),
        (403, {"error": "no"}, "unauthorized"),
        (404, {"error": "no"}, "bad-request"),
        (500, {"message": "gone", "kind": "display"}, "display"),
        (500, None, "server-error"),
        (502, None, "server-error"),
        (302, None, "bad-reply"),
        (200, None, "bad-reply"),
        (200, [1], "bad-reply"),
    ],
)
async def test_every_fault_has_a_name(status: int, body: Any, kind: str) -> None:
    def answer(_: web.Request) -> web.StreamResponse:
        if body is None:
            return web.Response(status=status, text="<html>")
        return web.json_response(body, status=status)

    async with answering(answer) as (remote, _):
        for call in (remote.pointer, remote.screenshot, remote.windows):
            with pytest.raises(MachineError) as caught:
                await call()
            assert caught.value.kind == kind


async def test_a_broken_connection_is_tried_again_under_the_same_id() -> None:
    ids: list[str | None] = []

    def answer(request: web.Request) -> web.StreamResponse | None:
        ids.append(request.headers.get("X-Request-Id"))
        return web.json_response({"status": "success"}) if len(ids) == 3 else None

    async with answering(answer) as (remote, _):
        await remote.perform([Press()])
    assert len(ids) == 3 and len(set(ids)) == 1 and ids[0]


async def test_an_action_is_sent_once_to_a_server_that_knows_no_ids() -> None:
    async with answering(lambda _: None) as (remote, asked):
        osworld = OsworldComputer(remote._calls, Screen(8, 6), PurePosixPath("/home/u"))
        with pytest.raises(MachineError) as caught:
            await osworld.perform([Press()])
        assert caught.value.kind == "connection" and asked == ["/execute"]
        with pytest.raises(MachineError):
            await osworld.screenshot()
        # A look is repeated, and by aiohttp itself once more where the connection was used before.
        assert QUICK.attempts <= len(asked) - 1 <= 2 * QUICK.attempts


async def test_a_failed_action_is_a_fault_although_the_server_says_success() -> None:
    body = {"status": "success", "output": "", "error": "NameError: x", "returncode": 1}
    async with answering(lambda _: web.json_response(body)) as (remote, _):
        osworld = OsworldComputer(remote._calls, Screen(8, 6), PurePosixPath("/home/u"))
        with pytest.raises(MachineError, match="NameError") as caught:
            await osworld.perform([Press()])
        assert caught.value.kind == "action"


async def test_a_full_server_is_waited_for_and_not_for_ever() -> None:
    waits: list[float] = []
    left = 5

    def answer(_: web.Request) -> web.StreamResponse:
        nonlocal left
        left -= 1
        if left < 0:
            return web.json_response([1, 2])
        return web.json_response({}, status=429, headers={"Retry-After": "0.01"})

    async with answering(answer) as (remote, asked):
        remote._calls._on_wait = lambda _, wait_s: waits.append(wait_s)
        assert await remote.pointer() == (1, 2)
        assert len(asked) == 6 and all(0.01 <= wait_s <= 0.011 for wait_s in waits)
        left = 10**6
        with pytest.raises(MachineError) as caught:
            await remote.perform([Press()])
        assert caught.value.kind == "busy" and len(asked) < 100
        left, waits[:] = 10**6, []

        def far(_: web.Request) -> web.StreamResponse:
            return web.json_response({}, status=429, headers={"Retry-After": "3600"})

    async with answering(far) as (remote, asked):
        with pytest.raises(MachineError) as caught:
            await remote.pointer()
        assert caught.value.kind == "busy" and len(asked) == 1


async def test_a_silent_server_is_a_timeout(paper: PaperComputer) -> None:
    async def hang(*_: Any) -> None:
        await asyncio.sleep(30)

    async with running(lambda: paper, Terms(is_open=True)) as address:
        backoff = Backoff(attempts=1)
        async with await connect(address.url, backoff=backoff, timeout_s=0.2) as remote:
            paper.pointer = hang  # type: ignore[method-assign,assignment]
            with pytest.raises(MachineError) as caught:
                await remote.pointer()
    assert caught.value.kind == "timeout"


async def test_a_wrong_token_is_named(paper: PaperComputer) -> None:
    async with running(lambda: paper) as address:
        for token in (None, "wrong"):
            with pytest.raises(MachineError) as caught:
                await connect(address.url, token=token, backoff=QUICK)
            assert caught.value.kind == "unauthorized"
            assert address.token is not None and address.token not in str(caught.value)
        async with await connect(address.url, token=address.token) as remote:
            assert await remote.pointer() == (0, 0)


async def test_what_is_off_the_screen_is_a_wrong_argument(paper: PaperComputer) -> None:
    async def refuse(_: Any) -> None:
        raise ValueError("the point (9000, 1) is off the screen")

    async with reached(paper) as remote:
        paper.perform = refuse  # type: ignore[method-assign,assignment]
        with pytest.raises(ValueError, match="off the screen"):
            await remote.perform([Move(9000, 1)])


async def test_a_url_must_be_one() -> None:
    with pytest.raises(ConfigError):
        await connect("localhost:5000")
    with pytest.raises(MachineError) as caught:
        await connect("http://127.0.0.1:9", backoff=Backoff(attempts=1))
    assert caught.value.kind == "connection"
