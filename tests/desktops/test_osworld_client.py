"""desktop-env, OSWorld's own package, works unchanged against our server on real desktops."""

from __future__ import annotations

import json
import socket
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from desktops.machines import desktop, require_desktop, window_of
from desktops.osworld_python import require_osworld, run_osworld

from practicum.desktops import tree_xml
from practicum.desktops.server import Terms, running

TOKEN = "letmein"
LIMIT_S = 600
TASK = json.loads(Path(__file__).with_name("osworld_task.json").read_text())

WITH_CODE = [
    "pyautogui.click(400, 300)",
    "pyautogui.hotkey('ctrl', 'end')",
    "pyautogui.write('1 < 2\\n')",
    "pyautogui.hotkey('ctrl', 's')",
    "DONE",
]
WITH_COMPUTER_13: list[Any] = [
    {"action_type": "CLICK", "parameters": {"x": 400, "y": 300}},
    {"action_type": "HOTKEY", "parameters": {"keys": ["ctrl", "end"]}},
    {"action_type": "TYPING", "parameters": {"text": "1 < 2\n"}},
    {"action_type": "HOTKEY", "parameters": {"keys": ["ctrl", "s"]}},
]
NEARLY = [action.replace("<", ">") for action in WITH_CODE]
EPISODES: list[tuple[str, list[Any]]] = [
    ("pyautogui", []),
    ("pyautogui", WITH_CODE),
    ("computer_13", WITH_COMPUTER_13),
    ("pyautogui", NEARLY),
]


async def test_osworlds_own_client_works_unchanged(tmp_path: Path) -> None:
    """One test, since desktops and the client's imports take most of the time."""
    require_desktop("mousepad", "xterm", "chromium", "ffmpeg", "feh", "xdg-open")
    require_osworld()
    report = await _use(tmp_path)
    _every_method_of_the_controller_works(report["control"])
    _the_faults_of_the_original_are_gone(report["control"])
    _every_action_of_computer_13_works(report["act"])
    _every_verb_that_needs_no_internet_works(report["setup"])
    _a_browser_is_found_where_chrome_is_looked_for(report["browse"])
    _an_episode_scores_what_was_done_on_the_screen(report["episodes"])


async def _use(folder: Path) -> dict[str, Any]:
    async with AsyncExitStack() as stack:

        async def serve() -> tuple[Any, int]:
            machine = await stack.enter_async_context(desktop())
            terms = Terms(token=TOKEN)
            address = await stack.enter_async_context(running(lambda: machine.computer, terms))
            return machine, int(address.url.rpartition(":")[2])

        machine, port = await serve()
        await machine.computer.write_file("~/Documents/letter.txt", b"Dear Ann,\n")
        await machine.computer.launch(["mousepad", f"{machine.computer.home}/Documents/letter.txt"])
        await window_of(machine.computer, "ousepad")
        await machine.computer.settle()
        episodes = [
            {"port": (await serve())[1], "space": space, "actions": actions}
            for space, actions in EPISODES
        ]
        given = {
            # Who can only be given a host's name gives the token in front of it.
            "host": f"desktop:{TOKEN}@127.0.0.1",
            "port": port,
            "browser_port": _free_port(),
            "task": TASK,
            "episodes": episodes,
        }
        return await _run(given, folder)


async def _run(given: dict[str, Any], folder: Path) -> dict[str, Any]:
    # DesktopEnv takes its address apart at colons; what it calls with reads this file.
    netrc = folder / "netrc"
    netrc.write_text(f"machine 127.0.0.1 login desktop password {TOKEN}\n")
    netrc.chmod(0o600)
    return await run_osworld("osworld_client.py", given, folder, LIMIT_S, NETRC=str(netrc))


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


PNG = "89504e470d0a1a0a"


def _every_method_of_the_controller_works(got: Any) -> None:
    assert got["screenshot"] == PNG
    tree = tree_xml.read(got["tree"])
    assert any(app.name.lower() == "mousepad" for app in tree.children)
    assert got["terminal"] is None
    assert got["platform"] == "Linux"
    assert got["screen_size"] == {"width": 1024, "height": 768}
    assert set(got["window_size"]) == {"width", "height"} and got["no_window_size"] is None
    assert got["desktop_path"].endswith("/Desktop")
    assert got["tree_of_files"]["children"] == [{"type": "file", "name": "letter.txt"}]
    assert got["no_tree_of_files"] is None
    assert got["file"] == "Dear Ann,\n" and got["no_file"] is None
    assert got["python"]["output"] == "42\n" and got["python"]["return_code"] == 0
    assert got["python_error"]["status"] == "error"
    assert "ZeroDivisionError" in got["python_error"]["error"]
    assert got["bash"] == {"status": "error", "output": "a\nb\n", "error": "", "returncode": 3}
    assert got["bash_timeout"]["returncode"] == -1
    assert got["film"] == "ftypisom"


def _the_faults_of_the_original_are_gone(got: Any) -> None:
    assert got["glued_loop"] == {"status": "success", "output": "", "error": "", "returncode": 0}
    # The original waits for the program's end, and its client gives up after 90 s.
    assert got["gui_program"]["returncode"] == 0
    assert got["not_in_the_dialect"]["returncode"] == 1
    assert "'pyautogui.screenshot' is not allowed" in got["not_in_the_dialect"]["error"]


def _every_action_of_computer_13_works(got: Any) -> None:
    assert got["written"] == "if a < b:\n\t'it\\'s' > \"é\"\nA<"


def _every_verb_that_needs_no_internet_works(got: Any) -> None:
    assert got == {
        "done": True,
        "said": "secret 960\n",
        "uploaded": b"\x00local".hex(),
        "made": True,
        "wallpaper": True,
    }


def _a_browser_is_found_where_chrome_is_looked_for(got: Any) -> None:
    pages = ["data:text/html,<title>one</title>", "data:text/html,two"]
    assert set(pages) <= set(got["tabs"])
    assert got["shown"] == pages[0]
    assert got["profile"]


def _an_episode_scores_what_was_done_on_the_screen(got: Any) -> None:
    untouched, with_code, with_computer_13, nearly = got
    assert untouched["first"] == {
        "screenshot": PNG,
        "instruction": TASK["instruction"],
        "has_tree": True,
    }
    assert untouched["score"] == 0.0
    assert with_code["score"] == 1.0 and with_code["dones"] == [False] * 4 + [True]
    assert with_computer_13["score"] == 1.0
    assert nearly["score"] == 0.0
