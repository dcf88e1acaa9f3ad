"""Find out which server answers under a URL, and make a computer of it."""

from __future__ import annotations

import ssl
from pathlib import PurePath, PurePosixPath, PureWindowsPath
from typing import Any, Literal

from practicum.core.retry import Backoff
from practicum.desktops.computer import Screen
from practicum.desktops.remote.calls import BACKOFF, CALL_TIMEOUT_S, CallError, Calls, OnWait
from practicum.desktops.remote.computer import RemoteComputer
from practicum.desktops.remote.osworld import OsworldComputer
from practicum.desktops.remote.waa import WaaComputer

ServerKind = Literal["practicum", "osworld", "waa"]

_HOME = "import os; print(os.path.expanduser('~'))"


async def connect(
    url: str,
    *,
    token: str | None = None,
    kind: ServerKind | None = None,
    timeout_s: float = CALL_TIMEOUT_S,
    backoff: Backoff = BACKOFF,
    on_wait: OnWait | None = None,
    tls: ssl.SSLContext | None = None,
) -> RemoteComputer:
    """Connect to a desktop's server; `kind` None asks which one it is.

    `on_wait` hears of every wait for a server that is full; by default it is logged. `tls` says
    whom to trust instead of the system's certificates.
    """
    calls = Calls(url, token, timeout_s=timeout_s, backoff=backoff, on_wait=on_wait, tls=tls)
    try:
        kind = kind or await _ask(calls)
        if kind == "practicum":
            return await _ours(calls)
        return await _theirs(calls, kind)
    except BaseException:
        await calls.aclose()
        raise


async def _ask(calls: Calls) -> ServerKind:
    try:
        await calls.look("GET", "/practicum")
    except CallError as error:
        if error.status != 404:
            raise
    else:
        return "practicum"
    reply = await calls.look("GET", "/platform")
    platform = reply.body.decode("utf-8", "replace").strip().strip('"')
    if platform == "Linux":
        return "osworld"
    if platform == "Windows":
        return "waa"
    raise reply.bad(f"neither Linux nor Windows: {platform[:80]!r}")


async def _ours(calls: Calls) -> RemoteComputer:
    reply = await calls.look("GET", "/practicum")
    match reply.json():
        case {
            "server": "practicum",
            "screen": [int() as width, int() as height],
            "home": str() as home,
        }:
            return RemoteComputer(calls, Screen(width, height), PurePosixPath(home))
    raise reply.bad(f"not our server: {reply.body[:120]!r}")


async def _theirs(calls: Calls, kind: ServerKind) -> RemoteComputer:
    reply = await calls.look("POST", "/screen_size")
    match reply.json():
        case {"width": int() as width, "height": int() as height}:
            screen = Screen(width, height)
        case _:
            raise reply.bad(f"no size: {reply.body[:120]!r}")
    body: dict[str, Any] = {"command": ["python", "-c", _HOME], "shell": False}
    reply = await calls.look("POST", "/execute", json=body)
    said = reply.json()
    home = said.get("output", "").strip() if isinstance(said, dict) else ""
    path: PurePath = PureWindowsPath(home) if kind == "waa" else PurePosixPath(home)
    if not path.is_absolute():
        raise reply.bad(f"no home folder: {reply.body[:120]!r}")
    cls = WaaComputer if kind == "waa" else OsworldComputer
    return cls(calls, screen, path)
