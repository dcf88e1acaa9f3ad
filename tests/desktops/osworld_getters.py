"""The getters of OSWorld that dial a machine's ports themselves; run by `.venv-osworld`'s Python.

Reads the machine's address and what to expect inside as JSON on standard input, and writes what
came back to the file named there. Nothing of desktop-env is changed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from desktop_env.controllers.python import PythonController
from desktop_env.controllers.setup import SetupController
from desktop_env.evaluators import getters

# Stands in for VLC: the same path, the same password.
VLC = """
import base64, http.server, sys
class Status(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        right = self.headers["Authorization"] == "Basic " + base64.b64encode(b":password").decode()
        self.send_response(200 if right and self.path == "/requests/status.xml" else 401)
        self.end_headers()
        self.wfile.write(b"<root><state>playing</state></root>")
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Status).serve_forever()
"""
FLAGS = "--no-first-run --disable-gpu --no-default-browser-check".split()


def main() -> None:
    """Ask for everything once."""
    given = json.load(sys.stdin)
    folder = Path(given["folder"])

    class Env:
        vm_ip = given["host"]
        server_port, chromium_port, vlc_port = given["server"], given["chromium"], given["vlc"]
        controller = PythonController(vm_ip, server_port)
        vm_platform = "Linux"
        cache_dir = str(folder)
        current_use_proxy = False

    env: Any = Env()
    inside = given["inside"]
    setup = SetupController(
        env.vm_ip, env.server_port, chromium_port=env.chromium_port, cache_dir=str(folder)
    )
    setup._execute_setup(["sh", "-c", f"echo '{given['page']}' > ~/page.html"])
    setup._launch_setup(["python3", "-c", VLC, str(inside["vlc"])])
    setup._launch_setup(["google-chrome", f"--remote-debugging-port={inside['chromium']}", *FLAGS])
    page = f"file://{given['home']}/page.html"
    setup._chrome_open_tabs_setup([page])
    status = getters.get_vlc_playing_info(env, {"dest": "status.xml"})
    report = {
        "command": getters.get_vm_command_line(env, {"command": "echo $HOME", "shell": True}),
        "error": getters.get_vm_command_error(env, {"command": ["sh", "-c", "echo no >&2"]}),
        "tabs": [tab["url"] for tab in getters.get_open_tabs_info(env, {})],
        "page": getters.get_page_info(env, {"url": page})["title"],
        "vlc": Path(status).read_text() if status else None,
    }
    Path(given["report"]).write_text(json.dumps(report))


if __name__ == "__main__":
    main()
