"""The set-up verbs of OSWorld and Windows Agent Arena on a `Computer`.

Their own controllers log a step that failed and go on; here it is a set-up error.
"""

from __future__ import annotations

import asyncio
import inspect
import shlex
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import aiohttp

from practicum.core.canonical import content_hash
from practicum.core.errors import EnvError
from practicum.desktops.computer import CommandResult, Computer, Window
from practicum.envs.desktop.osworld import tabs
from practicum.envs.desktop.setup import wait_until
from practicum.envs.desktop.verdict import SETUP

MAX_UNTIL_TRIES = 100
OPEN_TIMEOUT_S = 60.0
DOWNLOAD_TIMEOUT_S = 300.0

REFUSED = {
    "tidy_desktop": "OSWorld does not implement it either",
    "act": "OSWorld does not implement it either",
    "replay": "OSWorld does not implement it either",
    "change_wallpaper": "the desktops have no wallpaper",
    "proxy": "desktops are not sent through a proxy pool",
    "googledrive": "it needs a Google account",
    "login": "it needs an account at a web site",
    "update_browse_history": "it needs a file from the internet as its template",
    "edge_open_tabs": "there is no Edge",
}
"""Verbs that are known and not supported, with the reason."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What set-up steps work with."""

    computer: Computer
    cache: Path
    """Files kept between steps and for the evaluator, of this episode."""
    downloads: Path
    """Files from the internet, by address, of all episodes."""
    password: str = "password"


@dataclass(frozen=True, slots=True)
class Verb:
    """A set-up verb."""

    do: Callable[..., Awaitable[None]]

    def check(self, parameters: Mapping[str, Any]) -> None:
        """Raise `ValueError` if the parameters are not the verb's."""
        if not isinstance(parameters, dict):
            raise ValueError("parameters must be an object")
        try:
            inspect.signature(self.do).bind(None, **parameters)
        except TypeError as error:
            raise ValueError(str(error)) from error


async def run_steps(steps: Sequence[Mapping[str, Any]], stage: Stage) -> None:
    """Carry out steps in order."""
    for number, step in enumerate(steps, start=1):
        try:
            await VERBS[step["type"]].do(stage, **(step.get("parameters") or {}))
        except (OSError, ValueError, aiohttp.ClientError, TimeoutError) as error:
            raise EnvError(
                f"set-up step {number} ({step['type']}): {type(error).__name__}: {error}",
                kind=SETUP,
            ) from error


def fill(text: str, stage: Stage) -> str:
    """Put values into OSWorld's placeholders."""
    screen = stage.computer.screen
    values = {
        "{CLIENT_PASSWORD}": stage.password,
        "{SCREEN_WIDTH_HALF}": str(screen.width // 2),
        "{SCREEN_HEIGHT_HALF}": str(screen.height // 2),
        "{SCREEN_WIDTH}": str(screen.width),
        "{SCREEN_HEIGHT}": str(screen.height),
    }
    for name, value in values.items():
        text = text.replace(name, value)
    return text


def _filled(command: str | Sequence[str], shell: bool, stage: Stage) -> str | list[str]:
    """A command as the computer runs it: a string for the shell, a list otherwise."""
    if isinstance(command, str):
        line = fill(command, stage)
        return line if shell else shlex.split(line)
    words = [_expanded(fill(word, stage), stage) for word in command]
    # A list with shell=True is a command line in its first word, as for subprocess.
    return words[0] if shell else words


def _expanded(word: str, stage: Stage) -> str:
    return str(stage.computer.home) + word[1:] if word.startswith("~/") else word


async def _download(stage: Stage, files: Sequence[Mapping[str, str]]) -> None:
    for file in files:
        url, path = file["url"], file["path"]
        kept = stage.downloads / content_hash(url)[:32]
        if not kept.exists():
            timeout = aiohttp.ClientTimeout(total=DOWNLOAD_TIMEOUT_S)
            async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url) as reply:
                reply.raise_for_status()
                data = await reply.read()
            kept.parent.mkdir(parents=True, exist_ok=True)
            fresh = kept.with_suffix(".part")
            fresh.write_bytes(data)
            fresh.rename(kept)
        await stage.computer.write_file(path, kept.read_bytes())


async def _upload_file(stage: Stage, files: Sequence[Mapping[str, str]]) -> None:
    for file in files:
        data = await asyncio.to_thread(Path(file["local_path"]).read_bytes)
        await stage.computer.write_file(file["path"], data)


async def _open(stage: Stage, path: str) -> None:
    await stage.computer.launch(["xdg-open", _expanded(fill(path, stage), stage)])
    name = PurePath(path).name

    async def is_open() -> bool:
        return any(name in window.title for window in await stage.computer.windows())

    await wait_until(is_open, OPEN_TIMEOUT_S, f"no window shows {name!r}")


async def _launch(stage: Stage, command: str | list[str], shell: bool = False) -> None:
    line = _filled(command, shell, stage)
    if isinstance(line, list) and line[0] == "google-chrome":
        found = await stage.computer.run(["sh", "-c", "command -v google-chrome"])
        line = line if found.exit_code == 0 else ["chromium", *line[1:]]
    await stage.computer.launch(line)


async def _execute(
    stage: Stage,
    command: str | list[str],
    stdout: str = "",
    stderr: str = "",
    shell: bool = False,
    until: Mapping[str, Any] | None = None,
) -> None:
    line = _filled(command, shell, stage)
    for _ in range(MAX_UNTIL_TRIES):
        result = await stage.computer.run(line)
        for name, text in ((stdout, result.output), (stderr, result.error)):
            if name:
                (stage.cache / PurePath(name).name).write_text(text, encoding="utf-8")
        if not until or _is_reached(until, result):
            return
        await asyncio.sleep(0.3)
    raise EnvError(f"{command!r} did not reach {dict(until or {})!r}", kind=SETUP)


def _is_reached(until: Mapping[str, Any], result: CommandResult) -> bool:
    return (
        ("returncode" in until and result.exit_code == until["returncode"])
        or ("stdout" in until and until["stdout"] in result.output)
        or ("stderr" in until and until["stderr"] in result.error)
    )


async def _execute_with_verification(
    stage: Stage,
    command: str | list[str],
    verification: Mapping[str, Any] | None = None,
    max_wait_time: float = 10,
    check_interval: float = 1.0,
    shell: bool = False,
) -> None:
    await stage.computer.run(_filled(command, shell, stage))
    wanted = verification or {}
    if strange := sorted(set(wanted) - {"window_exists", "command_success"}):
        raise ValueError(f"there is no verification {strange[0]!r}")

    async def is_so() -> bool:
        title = wanted.get("window_exists")
        if title and not any(title in w.title for w in await stage.computer.windows()):
            return False
        line = wanted.get("command_success")
        return not line or (await stage.computer.run(str(line))).exit_code == 0

    deadline = time.monotonic() + max_wait_time
    while not await is_so():
        if time.monotonic() > deadline:
            raise EnvError(f"{command!r}: {dict(wanted)!r} did not come true", kind=SETUP)
        await asyncio.sleep(check_interval)


async def _sleep(stage: Stage, seconds: float) -> None:  # noqa: ARG001
    await asyncio.sleep(seconds)


async def _activate_window(
    stage: Stage, window_name: str, strict: bool = False, by_class: bool = False
) -> None:
    window = await _find_window(stage, window_name, strict, by_class)
    await stage.computer.activate_window(window.id)


async def _close_window(
    stage: Stage, window_name: str, strict: bool = False, by_class: bool = False
) -> None:
    window = await _find_window(stage, window_name, strict, by_class)
    await stage.computer.close_window(window.id)


async def _find_window(stage: Stage, name: str, strict: bool, by_class: bool) -> Window:
    for window in await stage.computer.windows():
        text = window.class_name if by_class else window.title
        if text == name or (not strict and name.lower() in text.lower()):
            return window
    raise EnvError(f"there is no window {name!r}", kind=SETUP)


async def _close_all(stage: Stage) -> None:
    for window in await stage.computer.windows():
        await stage.computer.close_window(window.id)


async def _create_folder(stage: Stage, path: str) -> None:
    result = await stage.computer.run(["mkdir", "-p", path])
    if result.exit_code != 0:
        raise EnvError(f"cannot make the folder {path}: {result.error.strip()}", kind=SETUP)


async def _create_file(stage: Stage, path: str, content: str = "") -> None:
    await stage.computer.write_file(path, content.encode())


async def _recycle_file(stage: Stage, path: str) -> None:
    result = await stage.computer.run(["gio", "trash", path])
    if result.exit_code != 0:
        raise EnvError(f"cannot put {path} into the trash: {result.error.strip()}", kind=SETUP)


async def _chrome_open_tabs(stage: Stage, urls_to_open: Sequence[str]) -> None:
    await tabs.open_tabs(stage.computer, urls_to_open)


async def _chrome_close_tabs(stage: Stage, urls_to_close: Sequence[str]) -> None:
    await tabs.close_tabs(stage.computer, urls_to_close)


_DO: dict[str, Callable[..., Awaitable[None]]] = {
    "download": _download,
    "upload_file": _upload_file,
    "open": _open,
    "launch": _launch,
    "execute": _execute,
    "command": _execute,
    "execute_with_verification": _execute_with_verification,
    "sleep": _sleep,
    "activate_window": _activate_window,
    "close_window": _close_window,
    "close_all": _close_all,
    "create_folder": _create_folder,
    "create_file": _create_file,
    "recycle_file": _recycle_file,
    "chrome_open_tabs": _chrome_open_tabs,
    "chrome_close_tabs": _chrome_close_tabs,
}
VERBS = {name: Verb(do) for name, do in _DO.items()}
