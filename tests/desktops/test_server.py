"""Every route of the in-desktop server, over a computer on paper."""

from __future__ import annotations

import asyncio
import base64
import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from desktops.hostile import hostile
from desktops.paper import TREE, PaperComputer
from PIL import Image as Picture

from practicum.core.errors import ConfigError, MachineError
from practicum.desktops import tree_xml
from practicum.desktops.computer import Key, Move, Press, Text
from practicum.desktops.server import Address, Terms, running

PREFIX = "import pyautogui; import time; pyautogui.FAILSAFE = False; "


class Client:
    """Calls a server as a plain client would."""

    def __init__(self, session: aiohttp.ClientSession, address: Address) -> None:
        self.session = session
        self.address = address

    async def call(self, method: str, path: str, **kwargs: Any) -> tuple[int, Any]:
        async with self.session.request(method, self.address.url + path, **kwargs) as reply:
            body = await reply.read()
            if reply.content_type == "application/json":
                return reply.status, await reply.json()
            return reply.status, body

    async def get(self, path: str, **kwargs: Any) -> tuple[int, Any]:
        return await self.call("GET", path, **kwargs)

    async def post(self, path: str, **kwargs: Any) -> tuple[int, Any]:
        return await self.call("POST", path, **kwargs)

    async def act(self, code: str, **kwargs: Any) -> tuple[int, Any]:
        command = ["python", "-c", PREFIX + code]
        return await self.post("/execute", json={"command": command, "shell": False}, **kwargs)


@pytest.fixture
async def paper(tmp_path: Path) -> AsyncIterator[PaperComputer]:
    home = tmp_path / "home"
    (home / "Desktop").mkdir(parents=True)
    computer = PaperComputer(home)
    yield computer
    await computer.stop()


@pytest.fixture
async def client(paper: PaperComputer) -> AsyncIterator[Client]:
    terms = Terms(max_body_bytes=2**16, max_upload_bytes=2**17, open_timeout_s=0.2)
    async with running(lambda: paper, terms) as address:
        headers = {"Authorization": f"Bearer {address.token}"}
        async with aiohttp.ClientSession(headers=headers) as session:
            yield Client(session, address)


async def test_pictures(client: Client) -> None:
    status, data = await client.get("/screenshot")
    assert status == 200 and data.startswith(b"\x89PNG")
    assert Picture.open(io.BytesIO(data)).size == (800, 600)
    status, data = await client.get("/screenshot?kind=jpeg&cursor=0")
    assert status == 200 and data.startswith(b"\xff\xd8\xff")
    assert (await client.get("/screenshot?kind=gif"))[0] == 400


async def test_what_can_be_asked(client: Client, paper: PaperComputer) -> None:
    status, tree = await client.get("/accessibility")
    assert status == 200 and tree_xml.read(tree["AT"]) == TREE
    assert await client.get("/terminal") == (200, {"output": "$ ls\nfile", "status": "success"})
    assert await client.post("/screen_size") == (200, {"width": 800, "height": 600})
    assert await client.get("/cursor_position") == (200, [0, 0])
    assert await client.get("/platform") == (200, b"Linux")
    assert await client.post("/window_size", data={"app_class_name": "XTerm"}) == (
        200,
        {"width": 200, "height": 100},
    )
    assert (await client.post("/window_size", data={"app_class_name": "gimp"}))[0] == 404
    desktop = {"desktop_path": str(paper.home / "Desktop")}
    assert await client.post("/desktop_path") == (200, desktop)
    (paper.home / "Desktop").rmdir()
    assert (await client.post("/desktop_path"))[0] == 404


async def test_commands(client: Client, paper: PaperComputer) -> None:
    for path in ("/execute", "/setup/execute"):
        status, done = await client.post(path, json={"command": ["sh", "-c", "echo a; exit 3"]})
        assert (status, done) == (
            200,
            {"status": "success", "output": "a\n", "error": "", "returncode": 3},
        )
    _, done = await client.post("/execute", json={"command": "echo $HOME >&2", "shell": True})
    assert done["error"] == f"{paper.home}\n"
    _, done = await client.post("/execute", json={"command": "echo '$HOME' x"})
    assert done["output"] == "$HOME x\n"
    _, done = await client.post("/execute", json={"command": ["echo $0", "b"], "shell": True})
    assert done["output"] == "b\n"
    _, done = await client.post("/execute", json={"command": ["echo", "~/x"]})
    assert done["output"] == f"{paper.home}/x\n"
    _, done = await client.post("/execute", json={"command": ["python", "-c", "print(6 * 7)"]})
    assert done["output"] == "42\n"
    status, done = await client.post("/execute", json={"command": ["no-such-program"]})
    assert status == 500 and done["status"] == "error" and done["kind"] == "spawn"
    for bad in (
        {},
        {"command": 1},
        {"command": [1]},
        {"command": "'"},
        {"command": "x", "shell": 1},
    ):
        assert (await client.post("/execute", json=bad))[0] == 400


async def test_verified_commands(client: Client, paper: PaperComputer) -> None:
    path = "/setup/execute_with_verification"
    made = paper.home / "made"
    body = {
        "command": ["touch", str(made)],
        "verification": {"window_exists": "mousepad", "command_success": f"test -e {made}"},
    }
    status, done = await client.post(path, json=body)
    assert status == 200 and done["verification"] == "passed" and done["returncode"] == 0
    body = {
        "command": ["true"],
        "verification": {"window_exists": "gimp"},
        "max_wait_time": 0.2,
        "check_interval": 0.1,
    }
    status, done = await client.post(path, json=body)
    assert status == 500 and done["status"] == "verification_failed"
    status, _ = await client.post(path, json={**body, "verification": {"file_exists": "x"}})
    assert status == 400


async def test_launching(client: Client, paper: PaperComputer) -> None:
    status, said = await client.post("/setup/launch", json={"command": ["sleep", "60"]})
    assert (status, said) == (200, b"sleep 60 launched successfully")
    assert paper.started[0].returncode is None
    status, _ = await client.post("/setup/launch", json={"command": ["no-such-program"]})
    assert status == 500


async def test_scripts(client: Client, paper: PaperComputer) -> None:
    status, done = await client.post("/run_python", json={"code": "print(1)"})
    assert status == 200 and done == {
        "status": "success",
        "message": "Code executed successfully",
        "need_more": False,
        "output": "1\n",
        "error": "",
        "return_code": 0,
    }
    status, done = await client.post("/run_python", json={"code": "1 / 0"})
    assert status == 200 and done["status"] == "error" and "ZeroDivisionError" in done["error"]
    assert (await client.post("/run_python", json={}))[0] == 400
    script = {"script": "echo out; echo err >&2; pwd; exit 2", "working_dir": "~/Desktop"}
    status, done = await client.post("/run_bash_script", json=script)
    output = f"out\nerr\n{paper.home}/Desktop\n"
    assert (status, done) == (
        200,
        {"status": "error", "output": output, "error": "", "returncode": 2},
    )
    status, done = await client.post("/run_bash_script", json={"script": "sleep 9", "timeout": 0.1})
    assert status == 200 and done["returncode"] == -1 and "timed out" in done["output"]


async def test_files(client: Client, paper: PaperComputer) -> None:
    form = aiohttp.FormData({"file_path": "~/a/b.txt"})
    form.add_field("file_data", b"\x00data", filename="b.txt")
    assert await client.post("/setup/upload", data=form) == (200, b"File Uploaded: 5 bytes")
    for path in ("~/a/b.txt", "$HOME/a/b.txt", str(paper.home / "a/b.txt")):
        assert await client.post("/file", data={"file_path": path}) == (200, b"\x00data")
    status, said = await client.post("/file", data={"file_path": "~/none"})
    assert (status, said["error"]) == (404, "File not found")
    assert (await client.post("/file", json={"file_path": "~/a/b.txt"}))[0] == 400
    assert (await client.post("/file", data={"file_path": "~/a"}))[0] == 400
    status, tree = await client.post("/list_directory", json={"path": "~/"})
    b = {"type": "file", "name": "b.txt"}
    a = {"type": "directory", "name": "a", "children": [b]}
    desktop = {"type": "directory", "name": "Desktop", "children": []}
    tree = tree["directory_tree"]
    assert tree["name"] == "home" and sorted(tree["children"], key=str) == sorted(
        [a, desktop], key=str
    )
    assert (await client.post("/list_directory", json={"path": "~/none"}))[0] == 400
    assert (await client.post("/wallpaper"))[0] == 404
    assert (await client.post("/setup/change_wallpaper", json={"path": "~/none"}))[0] == 404


async def test_a_large_folder_is_refused_and_not_cut(
    client: Client, paper: PaperComputer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("practicum.desktops.server.files.MAX_ENTRIES", 3)
    for name in "abcd":
        (paper.home / "Desktop" / name).touch()
    status, said = await client.post("/list_directory", json={"path": "~/Desktop"})
    assert status == 413 and "more than 3" in said["message"]


async def test_a_download_comes_from_inside_the_desktop(
    client: Client, paper: PaperComputer
) -> None:
    async def give(_: web.Request) -> web.Response:
        return web.Response(body=b"far away")

    app = web.Application()
    app.router.add_get("/file", give)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        body = {"url": f"http://127.0.0.1:{port}/file", "path": "~/new/far"}
        assert (await client.post("/setup/download_file", json=body))[0] == 200
        assert (paper.home / "new/far").read_bytes() == b"far away"
        body["url"] += "-not"
        status, said = await client.post("/setup/download_file", json=body)
        assert status == 500 and "404" in said["message"]
        body["url"] = "file:///etc/passwd"
        assert (await client.post("/setup/download_file", json=body))[0] == 400
    finally:
        await runner.cleanup()


async def test_windows(client: Client, paper: PaperComputer) -> None:
    path = "/setup/activate_window"
    assert (await client.post(path, json={"window_name": "mousepad"}))[0] == 200
    assert (await client.post(path, json={"window_name": "xterm.XTerm", "strict": True, "by_class": True}))[0] == 200  # fmt: skip  # noqa: E501
    assert paper.activated == ["0x1", "0x2"]
    status, said = await client.post(path, json={"window_name": "term", "strict": True})
    assert status == 404 and "'Terminal'" in said["message"]
    assert (await client.post("/setup/close_window", json={"window_name": "TERM"}))[0] == 200
    assert [window.id for window in paper.shown] == ["0x1"]


async def test_a_recording_needs_a_beginning(client: Client) -> None:
    status, said = await client.post("/end_recording")
    assert status == 400 and "No recording" in said["message"]


async def test_actions_are_done_in_process(client: Client, paper: PaperComputer) -> None:
    status, done = await client.act("pyautogui.click(100, 200)")
    assert (status, done["returncode"]) == (200, 0)
    _, done = await client.act("pyautogui.write('hello <world>')")
    _, done = await client.act("for key in ['a', 'b']:\n    pyautogui.press(key)")
    assert done["returncode"] == 0
    _, done = await client.act("print(pyautogui.position())")
    assert done["output"] == "(100, 200)\n"
    assert paper.inputs[:4] == [
        Move(100, 200),
        Press(),
        Press(is_down=False),
        Text("hello <world>"),
    ]
    assert Key("b", False) == paper.inputs[-1]


async def test_a_text_is_pasted(client: Client, paper: PaperComputer) -> None:
    _, done = await client.act("\nimport pyperclip\npyperclip.copy('é')\npyautogui.press('a')")
    assert done["returncode"] == 0 and paper.copied == "é"
    assert paper.inputs == [Key("a"), Key("a", False)]


async def test_other_code_is_feedback_or_a_program(client: Client, paper: PaperComputer) -> None:
    _, done = await client.act("pyautogui.click(1, 2); pyautogui.screenshot()")
    assert done["returncode"] == 1 and "'pyautogui.screenshot' is not allowed" in done["error"]
    assert paper.inputs == []
    _, done = await client.act("import platform; print(platform.system())")
    assert done["output"] == "Linux\n"
    _, done = await client.act("1 / 0")
    assert done["returncode"] == 1 and "ZeroDivisionError" in done["error"]


async def test_hostile_actions_do_nothing(
    client: Client, paper: PaperComputer, tmp_path: Path
) -> None:
    target = tmp_path / "made"
    actions = [code for code in hostile(str(target)) if "pyautogui" in code and len(code) < 40_000]
    assert len(actions) > 100
    for code in actions:
        status, done = await client.act(f"pyautogui.moveTo(1, 1)\n{code}")
        assert status == 200 and done["returncode"] == 1, code
    assert not target.exists() and paper.inputs == []


async def test_two_actions_never_mix(client: Client, paper: PaperComputer) -> None:
    code = "pyautogui.press('{0}'); pyautogui.press('{0}')"
    await asyncio.gather(*(client.act(code.format(key)) for key in "abc"))
    names = [one.name for one in paper.inputs if isinstance(one, Key)]
    assert sorted(names[i : i + 4] for i in (0, 4, 8)) == [["a"] * 4, ["b"] * 4, ["c"] * 4]


async def test_a_request_id_is_done_once(client: Client, paper: PaperComputer) -> None:
    headers = {"X-Request-Id": "one"}
    code = "pyautogui.write('x', interval=0.05)"
    answers = await asyncio.gather(*(client.act(code, headers=headers) for _ in range(5)))
    answers += [await client.act(code, headers=headers)]
    assert all(one == answers[0] for one in answers) and answers[0][0] == 200
    assert [one for one in paper.inputs if isinstance(one, Text)] == [Text("x")]
    status, said = await client.act("pyautogui.click()", headers=headers)
    assert status == 409 and "another one" in said["message"]
    assert (await client.act(code, headers={"X-Request-Id": "x" * 201}))[0] == 400


async def test_an_action_that_broke_is_not_done_again(client: Client, paper: PaperComputer) -> None:
    paper.broken = MachineError("the X server is gone", kind="display")
    headers = {"X-Request-Id": "two"}
    first = await client.act("pyautogui.click()", headers=headers)
    assert first[0] == 500 and first[1]["kind"] == "display"
    paper.broken = None
    assert await client.act("pyautogui.click()", headers=headers) == first
    assert paper.inputs == []


async def test_an_action_goes_on_when_its_client_leaves(
    client: Client, paper: PaperComputer
) -> None:
    code, headers = "pyautogui.write('ab', interval=0.2)", {"X-Request-Id": "three"}
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await client.act(code, headers=headers)
    assert (await client.act(code, headers=headers))[0] == 200
    assert [one for one in paper.inputs if isinstance(one, Text)] == [Text("a"), Text("b")]


async def test_routes_of_our_own(client: Client, paper: PaperComputer) -> None:
    status, identity = await client.get("/practicum")
    assert status == 200 and identity["screen"] == [800, 600]
    assert identity["home"] == str(paper.home) and identity["server"] == "practicum"
    inputs = [{"type": "move", "x": 1, "y": 2}, {"type": "text", "text": "é"}]
    assert (await client.post("/perform", json={"inputs": inputs}))[0] == 200
    assert paper.inputs == [Move(1, 2), Text("é")]
    for bad in (None, [1], [{"type": "fly"}], [{"type": "wait", "seconds": 100}]):
        assert (await client.post("/perform", json={"inputs": bad}))[0] == 400
    assert await client.post("/settle", json={}) == (200, {"settled": True})
    assert (await client.post("/clipboard", json={"text": "copied"}))[0] == 200
    assert await client.get("/clipboard") == (200, {"text": "copied"})
    _, windows = await client.get("/windows")
    assert windows["windows"][0]["title"] == "notes.txt - Mousepad"
    assert (await client.post("/windows/activate", json={"id": "0x2"}))[0] == 200
    assert (await client.post("/windows/close", json={"id": "0x1"}))[0] == 200
    stdin = base64.b64encode(b"in").decode()
    body = {"command": ["cat"], "stdin": stdin, "cwd": str(paper.home)}
    done = {"exit_code": 0, "output": "in", "error": ""}
    assert await client.post("/run", json=body) == (200, done)
    body = {"command": "sleep 9", "timeout_s": 0.1}
    status, said = await client.post("/run", json=body)
    assert status == 500 and said["kind"] == "timeout"


ROUTES = [
    *(
        ("GET", f"/{name}")
        for name in "screenshot accessibility terminal platform practicum".split()
    ),
    *(
        ("POST", path)
        for path in "/execute /setup/execute /file /setup/upload /run_bash_script /perform".split()
    ),
]


@pytest.mark.parametrize(("method", "path"), [*ROUTES, ("GET", "/no-such-route")])
async def test_a_wrong_or_missing_token_is_refused(
    client: Client, paper: PaperComputer, method: str, path: str
) -> None:
    token = client.address.token
    assert token is not None
    wrong = [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Bearer {token}x"},
        {"Authorization": f"Token {token}"},
        {"Authorization": token},
        {"Authorization": "Bearer"},
        {"Authorization": "Basic !!!"},
        {"Authorization": "Basic " + base64.b64encode(b"user:wrong").decode()},
        {"Authorization": f"Bearer {token}", "Origin": "http://evil.example"},
    ]
    async with aiohttp.ClientSession() as stranger:
        for headers in wrong:
            url = client.address.url + path
            async with stranger.request(method, url, headers=headers, json={}) as reply:
                assert reply.status in (401, 403)
                assert (await reply.json())["kind"] == "unauthorized"
    assert paper.inputs == [] and paper.started == []


async def test_basic_authentication_takes_the_token_as_user_or_password(client: Client) -> None:
    token = client.address.token
    assert token is not None
    for pair in (f"any:{token}", f"{token}:"):
        headers = {"Authorization": "Basic " + base64.b64encode(pair.encode()).decode()}
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.get(client.address.url + "/platform") as reply,
        ):
            assert reply.status == 200


async def test_an_open_server_must_be_asked_for_and_stays_at_home(paper: PaperComputer) -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1"):
        with pytest.raises(ConfigError, match="open"):
            async with running(lambda: paper, Terms(is_open=True), host=host):
                pass
    with pytest.raises(ConfigError, match="empty"):
        async with running(lambda: paper, Terms(token=" ")):
            pass
    async with (
        running(lambda: paper, Terms(is_open=True)) as address,
        aiohttp.ClientSession() as session,
    ):
        assert address.token is None
        url = f"{address.url}/platform"
        async with session.get(url) as reply:
            assert reply.status == 200
        for headers in ({"Host": "evil.example"}, {"Origin": address.url}):
            async with session.get(url, headers=headers) as reply:
                assert reply.status == 403


async def test_oversized_bodies_are_refused(client: Client, paper: PaperComputer) -> None:
    big = "x" * 2**17
    for path in ("/execute", "/run_python", "/perform", "/list_directory"):
        for headers in ({}, {"X-Request-Id": "big"}):
            status, said = await client.post(path, json={"command": big}, headers=headers)
            assert status == 413 and said["status"] == "error"
    assert (await client.post("/file", data={"file_path": big}))[0] == 413
    form = aiohttp.FormData({"file_path": "~/big"})
    form.add_field("file_data", big.encode() + b"x", filename="big")
    assert (await client.post("/setup/upload", data=form))[0] == 413
    assert not (paper.home / "big").exists()


async def test_nonsense_is_answered_with_json(client: Client) -> None:
    for data in (b"", b"{", b"[]", b"\xff"):
        status, said = await client.post("/execute", data=data)
        assert status == 400 and said["status"] == "error"
    assert (await client.get("/no-such-route"))[0] == 404
    assert (await client.get("/execute"))[0] == 405
    for data in (b"", b"--x\r\n\r\n"):
        status, _ = await client.post(
            "/setup/upload", data=data, headers={"Content-Type": "multipart/form-data; boundary=x"}
        )
        assert status == 400
    assert (await client.post("/setup/upload", data=b"x"))[0] == 400


async def test_a_fault_of_the_machine_has_its_name(client: Client, paper: PaperComputer) -> None:
    paper.broken = MachineError("the X server is gone", kind="display")
    status, said = await client.get("/screenshot")
    assert status == 500 and said["kind"] == "display" and "X server" in said["message"]
