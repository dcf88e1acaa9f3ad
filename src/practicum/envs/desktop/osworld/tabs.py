"""Tabs of a running Chromium, through its debugging port from inside the desktop."""

from __future__ import annotations

import json
from collections.abc import Sequence

from practicum.core.errors import EnvError
from practicum.desktops.computer import Computer
from practicum.envs.desktop.verdict import SETUP

TIMEOUT_S = 75.0

_SCRIPT = r"""
import json, sys, time, urllib.parse, urllib.request

ask = json.load(sys.stdin)

def call(port, path, method="GET"):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method)
    with urllib.request.urlopen(request, timeout=10) as reply:
        return reply.read()

def find_port():
    # OSWorld's tasks start the browser on 1337 and forward 9222 to it.
    deadline = time.monotonic() + ask["timeout_s"]
    while time.monotonic() < deadline:
        for port in (1337, 9222):
            try:
                call(port, "/json/version")
                return port
            except OSError:
                pass
        time.sleep(0.3)
    sys.exit("no browser answers on its debugging port")

def same(one, other):
    def key(url):
        parts = urllib.parse.urlsplit(url)
        host = parts.netloc.removeprefix("www.")
        return host, parts.path.rstrip("/"), parts.query
    return key(one) == key(other)

port = find_port()
pages = [p for p in json.loads(call(port, "/json/list")) if p["type"] == "page"]
for url in ask["open"]:
    call(port, "/json/new?" + urllib.parse.quote(url, safe=":/?&=%#+,;@"), "PUT")
if ask["open"]:
    for page in pages:
        if page["url"].startswith(("about:", "chrome://")):
            call(port, "/json/close/" + page["id"])
for url in ask["close"]:
    found = [p for p in pages if same(p["url"], url)]
    if not found:
        sys.exit(f"no tab shows {url}")
    call(port, "/json/close/" + found[0]["id"])
"""


async def open_tabs(computer: Computer, urls: Sequence[str]) -> None:
    """Open addresses in tabs; the browser's own first page is closed."""
    await _ask(computer, opened=urls, closed=())


async def close_tabs(computer: Computer, urls: Sequence[str]) -> None:
    """Close the tabs that show addresses."""
    await _ask(computer, opened=(), closed=urls)


async def _ask(computer: Computer, opened: Sequence[str], closed: Sequence[str]) -> None:
    asked = {"open": list(opened), "close": list(closed), "timeout_s": TIMEOUT_S - 15}
    result = await computer.run(
        ["python3", "-c", _SCRIPT], stdin=json.dumps(asked).encode(), timeout_s=TIMEOUT_S
    )
    if result.exit_code != 0:
        raise EnvError(f"the browser's tabs: {result.error.strip()[-300:]}", kind=SETUP)
