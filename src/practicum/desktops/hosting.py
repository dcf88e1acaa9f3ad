"""Keeps one desktop up in the background, for `practicum desktop`.

Run as a process of its own: `up` starts it and waits for its first line. It serves the desktop
(`practicum.desktops.server`), writes a state file that only its user can read, and listens for
`shot`, `reset` and `down` on a socket beside that file.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from practicum.core.errors import ConfigError, MachineError
from practicum.desktops.computer import Screen

Body = Literal["xvfb", "namespace"]
_ANSWER_LIMIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to bring up."""

    body: Body = "xvfb"
    width: int = 1920
    height: int = 1080
    template: str | None = None
    host: str = "127.0.0.1"
    port: int = 0


@dataclass(frozen=True, slots=True)
class State:
    """A desktop that is up."""

    id: str
    url: str
    token: str
    display: str
    screen: tuple[int, int]
    pid: int
    ready_s: float
    body: str


def runtime_folder() -> Path:
    """Where state files and sockets are; for this user alone."""
    if runtime := os.environ.get("XDG_RUNTIME_DIR"):
        folder = Path(runtime) / "practicum-desktops"
    else:
        folder = Path(tempfile.gettempdir()) / f"practicum-desktops-{os.getuid()}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_uid != os.getuid() or folder.stat().st_mode & 0o077:
        raise ConfigError(f"{folder} can be used by others: remove it, or make it yours alone")
    return folder


def bring_up(wanted: Wanted) -> State:
    """Start a desktop in the background; returns when it is ready."""
    process = subprocess.Popen(
        [sys.executable, "-m", "practicum.desktops.hosting"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdin and process.stdout and process.stderr
    process.stdin.write(json.dumps(asdict(wanted)).encode())
    process.stdin.close()
    with process.stdout, process.stderr:
        line = process.stdout.readline()
        process.wait()
        if not line:
            said = process.stderr.read().decode(errors="replace").strip()
            raise MachineError(
                said.splitlines()[-1] if said else "no desktop came up", kind="spawn"
            )
    return _state(json.loads(line))


def list_up() -> list[State]:
    """The desktops of this user that are up; what dead ones left is removed."""
    states = []
    for path in sorted(runtime_folder().glob("*.json")):
        try:
            state = _state(json.loads(path.read_text()))
        except (ValueError, KeyError, FileNotFoundError):
            continue  # being written or removed right now
        if Path(f"/proc/{state.pid}").exists():
            states.append(state)
        else:
            path.unlink(missing_ok=True)
            path.with_suffix(".sock").unlink(missing_ok=True)
    return states


def ask(state: State, request: str) -> bytes:
    """Ask a desktop's host for something; returns its answer."""

    async def talk() -> bytes:
        path = runtime_folder() / f"{state.id}.sock"
        reader, writer = await asyncio.open_unix_connection(str(path))
        try:
            writer.write(request.encode() + b"\n")
            head = await reader.readline()
            body = await reader.read()
        finally:
            writer.close()
        answer = json.loads(head) if head else {"error": "it went away", "kind": "down"}
        if "error" in answer:
            raise MachineError(f"desktop {state.id}: {answer['error']}", kind=answer["kind"])
        return body

    async def talk_in_time() -> bytes:
        try:
            async with asyncio.timeout(_ANSWER_LIMIT_S):
                return await talk()
        except (OSError, TimeoutError) as error:
            raise MachineError(
                f"desktop {state.id} does not answer: {type(error).__name__} {error}", kind="down"
            ) from error

    return asyncio.run(talk_in_time())


def take_down(state: State) -> None:
    """Take a desktop down; returns when nothing of it is left."""
    ask(state, "down")
    end_s = time.monotonic() + _ANSWER_LIMIT_S
    while Path(f"/proc/{state.pid}").exists() and time.monotonic() < end_s:
        time.sleep(0.02)


def _state(values: dict[str, Any]) -> State:
    width, height = values.pop("screen")
    return State(screen=(width, height), **values)


async def _host(wanted: Wanted, tell: Callable[[State], None]) -> None:
    """Keep a desktop up until it is asked to go."""
    from practicum.desktops.server import running
    from practicum.desktops.xvfb import DesktopOptions, NamespaceMachine, XvfbMachine

    options = DesktopOptions(
        screen=Screen(wanted.width, wanted.height),
        template=Path(wanted.template) if wanted.template else None,
    )
    kinds = {"xvfb": XvfbMachine, "namespace": NamespaceMachine}
    machine = kinds[wanted.body](options)
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, over.set)
    folder = runtime_folder()
    paths = [folder / f"{machine.id}.json", folder / f"{machine.id}.sock"]
    started_s = time.perf_counter()
    await machine.start()
    ready_s = time.perf_counter() - started_s
    taking_turns = asyncio.Lock()  # a picture in the middle of a reset would be of nothing

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        body = b""
        try:
            match (await reader.readline()).decode().strip():
                case "shot":
                    async with taking_turns:
                        body = (await machine.computer.screenshot()).data
                case "reset":
                    async with taking_turns:
                        began_s = time.perf_counter()
                        await machine.reset()
                        body = json.dumps(round(time.perf_counter() - began_s, 3)).encode()
                case "down":
                    over.set()
                case unknown:
                    raise MachineError(f"{unknown!r} is nothing to ask for", kind="request")
            writer.write(b"{}\n" + body)
        except MachineError as error:
            writer.write(json.dumps({"error": str(error), "kind": error.kind}).encode() + b"\n")
        finally:
            with contextlib.suppress(ConnectionError):
                await writer.drain()
            writer.close()

    try:
        async with running(lambda: machine.computer, host=wanted.host, port=wanted.port) as address:
            state = State(
                *(machine.id, address.url, address.token or "", machine.display),
                *((wanted.width, wanted.height), os.getpid(), round(ready_s, 3), wanted.body),
            )
            listener = await asyncio.start_unix_server(answer, str(paths[1]))
            _write_privately(paths[0], json.dumps(asdict(state)))
            tell(state)
            async with listener:
                await over.wait()
    finally:
        for path in paths:
            path.unlink(missing_ok=True)
        await machine.stop()


def _write_privately(path: Path, text: str) -> None:
    draft = path.with_suffix(".new")
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(fd, "w") as file:
        file.write(text)
    draft.rename(path)


def main() -> int:
    """Read what is wanted from standard input, and host it."""
    wanted = Wanted(**json.load(sys.stdin))
    if os.fork():
        os._exit(0)  # the desktop is nobody's child: whoever asked for it need not wait for it

    def tell(state: State) -> None:
        sys.stdout.write(json.dumps(asdict(state)) + "\n")
        sys.stdout.flush()
        # Whoever started us is not there any more to read.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)

    try:
        asyncio.run(_host(wanted, tell))
    except MachineError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
