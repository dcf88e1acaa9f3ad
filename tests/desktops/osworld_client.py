"""Uses desktops the way OSWorld's own package does; run by the Python of `.venv-osworld`.

Reads what to do as JSON on standard input and writes what came back to the file named there.
Nothing of desktop-env is changed but the list of providers, which is closed.
"""

from __future__ import annotations

import base64
import json
import sys
import time
from pathlib import Path
from typing import Any

import desktop_env.desktop_env as osworld
from desktop_env.controllers.python import PythonController
from desktop_env.controllers.setup import SetupController
from desktop_env.evaluators import getters, metrics
from desktop_env.providers.base import Provider, VMManager

PICTURE = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)


def control(host: str, port: int, folder: Path) -> dict[str, Any]:
    """All that PythonController can do."""
    controller = PythonController(host, port)
    controller.retry_interval = 0
    report: dict[str, Any] = {
        "screenshot": controller.get_screenshot()[:8].hex(),
        "tree": controller.get_accessibility_tree(),
        "terminal": controller.get_terminal_output(),
        "platform": controller.get_vm_platform(),
        "screen_size": controller.get_vm_screen_size(),
        "window_size": controller.get_vm_window_size("mousepad"),
        "no_window_size": controller.get_vm_window_size("gimp"),
        "desktop_path": controller.get_vm_desktop_path(),
        "tree_of_files": controller.get_vm_directory_tree("~/Documents"),
        "no_tree_of_files": controller.get_vm_directory_tree("/none"),
        "file": controller.get_file("~/Documents/letter.txt").decode(),
        "no_file": controller.get_file("~/none"),
        "python": controller.run_python_script("print(6 * 7)"),
        "python_error": controller.run_python_script("1 / 0"),
        "bash": controller.run_bash_script("echo a; echo b >&2; exit 3", working_dir="/tmp"),
        "bash_timeout": controller.run_bash_script("sleep 9", timeout=1),
        "glued_loop": controller.execute_python_command(
            "for i in range(2): pyautogui.moveTo(i, 0)"
        ),
        "not_in_the_dialect": controller.execute_python_command("pyautogui.screenshot()"),
    }
    report["gui_program"] = controller.execute_python_command(
        "import subprocess; subprocess.Popen(['xterm'])"
    )
    controller.start_recording()
    time.sleep(0.5)
    controller.end_recording(str(folder / "film.mp4"))
    report["film"] = (folder / "film.mp4").read_bytes()[4:12].decode("latin-1")
    controller.run_bash_script("pkill -x xterm")
    return report


ACTIONS = [
    {"action_type": "MOVE_TO", "parameters": {"x": 200, "y": 150}},
    {"action_type": "CLICK", "parameters": {"button": "left", "x": 300, "y": 300, "num_clicks": 1}},
    {"action_type": "CLICK", "parameters": {}},
    {"action_type": "HOTKEY", "parameters": {"keys": ["ctrl", "a"]}},
    {"action_type": "TYPING", "parameters": {"text": "if a < b:\n\t'it\\'s' > \"é\""}},
    {"action_type": "PRESS", "parameters": {"key": "enter"}},
    {"action_type": "KEY_DOWN", "parameters": {"key": "shift"}},
    {"action_type": "PRESS", "parameters": {"key": "a"}},
    {"action_type": "KEY_UP", "parameters": {"key": "shift"}},
    {"action_type": "PRESS", "parameters": {"key": "<"}},
    {"action_type": "SCROLL", "parameters": {"dx": 1, "dy": -2}},
    {"action_type": "MOUSE_DOWN", "parameters": {"button": "left"}},
    {"action_type": "MOUSE_UP", "parameters": {}},
    {"action_type": "DOUBLE_CLICK", "parameters": {}},
    {"action_type": "RIGHT_CLICK", "parameters": {}},
    {"action_type": "PRESS", "parameters": {"key": "escape"}},
    {"action_type": "DRAG_TO", "parameters": {"x": 320, "y": 320}},
    {"action_type": "HOTKEY", "parameters": {"keys": ["ctrl", "s"]}},
]


def act(host: str, port: int) -> dict[str, Any]:
    """Every action of computer_13, into an editor, and what it then wrote."""
    controller = PythonController(host, port)
    SetupController(host, port).setup(
        [{"type": "activate_window", "parameters": {"window_name": "Mousepad"}}]
    )
    for action in ACTIONS:
        controller.execute_action(action)
    time.sleep(1)
    return {"written": controller.get_file("~/Documents/letter.txt").decode()}


def set_up(host: str, port: int, folder: Path) -> dict[str, Any]:
    """The verbs of SetupController that need no internet."""
    setup = SetupController(host, port, cache_dir=str(folder), client_password="secret")
    (folder / "local.bin").write_bytes(b"\x00local")
    (folder / "wall.png").write_bytes(base64.b64decode(PICTURE))
    files = {"local.bin": "~/new/up.bin", "wall.png": "~/wall.png"}
    uploads = [{"local_path": str(folder / name), "path": path} for name, path in files.items()]
    wait = "test -e ~/new/late || { touch ~/new/late; exit 1; }"
    shown = {"window_exists": "shell"}
    made = {"command_success": "test -e ~/new/made"}
    say = ["sh", "-c", "echo {CLIENT_PASSWORD} {SCREEN_WIDTH_HALF}"]
    steps: list[tuple[str, dict[str, Any]]] = [
        ("upload_file", {"files": uploads}),
        ("execute", {"command": say, "stdout": "said.txt"}),
        ("command", {"command": wait, "shell": True, "until": {"returncode": 0}}),
        ("execute_with_verification", {"command": ["touch", "~/new/made"], "verification": made}),
        ("launch", {"command": ["xterm", "-T", "shell"]}),
        ("execute_with_verification", {"command": ["true"], "verification": shown}),
        ("open", {"path": "~/Documents/letter.txt"}),
        ("activate_window", {"window_name": "shell"}),
        ("close_window", {"window_name": "shell", "strict": True}),
        ("change_wallpaper", {"path": "~/wall.png"}),
        ("sleep", {"seconds": 0.1}),
    ]
    is_done = setup.setup([{"type": verb, "parameters": more} for verb, more in steps])
    controller = PythonController(host, port)
    controller.retry_interval = 0
    return {
        "done": is_done,
        "said": (folder / "said.txt").read_text(),
        "uploaded": controller.get_file("~/new/up.bin").hex(),
        "made": controller.get_file("~/new/made") == b"",
        "wallpaper": controller.get_vm_wallpaper() == (folder / "wall.png").read_bytes(),
    }


def browse(host: str, port: int, browser_port: int, folder: Path) -> dict[str, Any]:
    """Tabs through the browser's own port, and the address bar through the accessibility tree."""

    class Env:
        vm_ip, server_port, chromium_port = host, port, browser_port
        controller = PythonController(host, port)
        vm_platform = "Linux"
        current_use_proxy = False
        cache_dir = str(folder)

    setup = SetupController(host, port, chromium_port=browser_port)
    setup._launch_setup(["google-chrome", f"--remote-debugging-port={browser_port}"])
    setup._chrome_open_tabs_setup(["data:text/html,<title>one</title>", "data:text/html,two"])
    tabs = [tab["url"] for tab in getters.get_open_tabs_info(Env(), {})]
    setup._activate_window_setup("Google Chrome")
    setup._execute_setup(["python", "-c", "import pyautogui; pyautogui.hotkey('ctrl', '1')"])
    time.sleep(1)
    return {
        "tabs": tabs,
        "shown": getters.get_active_url_from_accessTree(Env(), {"goto_prefix": ""}),
        "profile": Env.controller.get_file("~/.config/google-chrome/Local State") is not None,
    }


class OneDesktop(Provider, VMManager):
    """A machine that is there already."""

    def __init__(self, port: int) -> None:
        self.port = port

    def get_ip_address(self, path_to_vm: str) -> str:
        return f"127.0.0.1:{self.port}:9222:8006:8080"

    def get_vm_path(self, **_: Any) -> str:
        return "desktop"

    def start_emulator(self, *_: Any, **__: Any) -> None:
        pass

    stop_emulator = save_state = revert_to_snapshot = start_emulator
    initialize_registry = add_vm = delete_vm = occupy_vm = list_free_vms = start_emulator
    check_and_clean = start_emulator


def play(port: int, task: dict[str, Any], actions: list[Any], space: str, folder: Path) -> Any:
    """One episode of a task."""
    desktop = OneDesktop(port)
    osworld.create_vm_manager_and_provider = lambda *_, **__: (desktop, desktop)
    env = osworld.DesktopEnv(
        "docker", action_space=space, cache_dir=str(folder), screen_size=(1024, 768)
    )
    observation = env.reset(task_config=task)
    report: dict[str, Any] = {
        "first": {
            "screenshot": observation["screenshot"][:8].hex(),
            "instruction": observation["instruction"],
            "has_tree": "Mousepad" in observation["accessibility_tree"],
        }
    }
    dones = []
    for action in actions:
        observation, _, is_done, _ = env.step(action, pause=0.5)
        dones.append(is_done)
    report["dones"] = dones
    report["score"] = float(env.evaluate())
    env.close()
    return report


def main() -> None:
    """Do what standard input says."""
    given = json.load(sys.stdin)
    folder = Path(given["folder"])
    report: dict[str, Any] = {}
    port, host = given["port"], given["host"]
    report["control"] = control(host, port, folder)
    report["act"] = act(host, port)
    report["setup"] = set_up(host, port, folder)
    report["browse"] = browse("127.0.0.1", port, given["browser_port"], folder)
    report["episodes"] = [
        play(one["port"], given["task"], one["actions"], one["space"], folder / str(number))
        for number, one in enumerate(given["episodes"])
    ]
    assert metrics.check_include_exclude
    Path(given["report"]).write_text(json.dumps(report))


if __name__ == "__main__":
    main()
