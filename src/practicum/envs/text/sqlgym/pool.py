"""Keeps guard processes warm and asks them to run queries, off the event loop.

A guard runs one query at a time and holds nothing between two. Cancelling a query ends its
guard; so do a query that outlives its time and the end of the pool.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from practicum.core.errors import EnvError, MachineError
from practicum.envs.text.sqlgym.matching import Match
from practicum.envs.text.sqlgym.sandbox import Limits

MAX_GUARDS = 8
TOO_LONG = "The query was stopped: it took too long. Make it do less."

# The package is found where this process found it, behind the standard library.
_BOOT = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from practicum.envs.text.sqlgym.guard import main; main()"
)
_PACKAGE_ROOT = Path(__file__).parents[4]
_READ_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Source:
    """A database as guards take it: an image in memory, or a file."""

    key: str
    tables: Sequence[str]
    limits: Limits
    image: bytes | None = None
    path: str | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """A query to run; with a reference query, one to judge."""

    source: Source
    sql: str
    gold: str | None = None
    match: Match = "bag"


@dataclass(frozen=True, slots=True)
class Reply:
    """What became of it."""

    outcome: Literal["shown", "refused", "judged"]
    text: str
    is_match: bool = False


class _GuardDiedError(Exception):
    """A guard ended in the middle of a query."""

    def __init__(self, exit_code: int, said: str) -> None:
        super().__init__(f"exit code {exit_code}: {said or 'it said nothing'}")
        self.exit_code = exit_code


class _Guard:
    """The parent's side of one guard process. Used by one thread at a time."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-E", "-s", "-S", "-c", _BOOT, str(_PACKAGE_ROOT)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,  # an interrupt typed at the terminal is not for it
            )
        except OSError as error:
            raise MachineError(f"no guard process could start: {error}", kind="spawn") from error

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, request: Request) -> dict[str, Any]:
        """Send a request and wait for the reply."""
        source = request.source
        image = None
        if source.image is not None and source.key not in self._known:
            image = base64.b64encode(source.image).decode()
            self._known.add(source.key)
        line = json.dumps(
            {
                "key": source.key,
                "image": image,
                "path": source.path,
                "tables": list(source.tables),
                "limits": asdict(source.limits),
                "sql": request.sql,
                "gold": request.gold,
                "match": request.match,
            }
        )
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._died() from None
        reply: dict[str, Any] = json.loads(self._read_line(source.limits.max_wall_s))
        return reply

    def _read_line(self, timeout_s: float) -> bytes:
        assert self._process.stdout is not None
        deadline = time.monotonic() + timeout_s
        poll = select.poll()
        poll.register(self._process.stdout, select.POLLIN | select.POLLHUP)
        line = b""
        while not line.endswith(b"\n"):
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not poll.poll(left_s * 1000):
                self.kill()
                raise MachineError(
                    f"a query did not end within {timeout_s:g} s although it had used little "
                    "processor time: the machine is overloaded; lower the concurrency",
                    kind="timeout",
                )
            part = os.read(self._process.stdout.fileno(), _READ_BYTES)
            if not part:
                raise self._died()
            line += part
        return line

    def _died(self) -> _GuardDiedError:
        assert self._process.stderr is not None
        exit_code = self._process.wait()
        try:
            said = self._process.stderr.read().decode(errors="replace").strip()
        except ValueError:  # closed by a `kill` from another thread
            said = ""
        return _GuardDiedError(exit_code, said[-500:])

    def kill(self) -> None:
        """End the process, whatever it does; idempotent, and safe from any thread."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """End the process and release the pipes."""
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:
                continue  # what was left to write has no reader any more


class _Crew:
    """The guards and threads of one pool, apart from it so that they can outlive it."""

    def __init__(self, size: int) -> None:
        self.pid = os.getpid()
        self.threads = ThreadPoolExecutor(size, thread_name_prefix="sqlgym")
        self._idle: deque[_Guard] = deque()
        self._guards: set[_Guard] = set()
        self._is_closed = False
        self._lock = threading.Lock()  # protects `_guards` and `_is_closed`

    def take(self) -> _Guard:
        """A guard that is free, started if there is none."""
        while self._idle:
            guard = self._idle.pop()
            if guard.is_alive:
                return guard
            self.discard(guard)
        guard = _Guard()
        with self._lock:
            if not self._is_closed:
                self._guards.add(guard)
                return guard
        guard.close()
        raise MachineError("the environment is closed: open another one", kind="closed")

    def give_back(self, guard: _Guard) -> None:
        """Keep a guard for the next query."""
        self._idle.append(guard)

    def discard(self, guard: _Guard) -> None:
        """End a guard for good."""
        with self._lock:
            self._guards.discard(guard)
        guard.close()

    def pids(self) -> list[int]:
        """Process ids of all guards that live."""
        with self._lock:
            return [guard.pid for guard in self._guards if guard.is_alive]

    def close(self) -> None:
        """End all guards and threads; idempotent."""
        if os.getpid() != self.pid:
            return  # a forked copy of this process must not end its parent's guards
        with self._lock:
            self._is_closed = True
            guards = list(self._guards)
        self.threads.shutdown(wait=False, cancel_futures=True)
        for guard in guards:
            guard.kill()
        self.threads.shutdown(wait=True)
        for guard in guards:
            self.discard(guard)


class _Job:
    """One query on its way; can be cancelled from the event loop while a thread waits."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._guard: _Guard | None = None
        self._is_cancelled = False
        self._lock = threading.Lock()  # protects the two fields above

    def run(self, crew: _Crew) -> dict[str, Any]:
        """Ask a guard; called in a thread."""
        guard = crew.take()
        with self._lock:
            self._guard = guard
            is_cancelled = self._is_cancelled
        try:
            if is_cancelled:
                raise _GuardDiedError(0, "cancelled before it began")
            reply = guard.ask(self._request)
        except BaseException:
            self._let_go()
            crew.discard(guard)
            raise
        self._let_go()
        if reply.get("is_spent"):
            crew.discard(guard)
        else:
            crew.give_back(guard)
        return reply

    def _let_go(self) -> None:
        with self._lock:
            self._guard = None

    def cancel(self) -> None:
        """End the guard that runs it, if one does."""
        with self._lock:
            self._is_cancelled = True
            if self._guard is not None:
                self._guard.kill()


class GuardPool:
    """Runs queries in guard processes, several at a time, from any event loop."""

    def __init__(self, size: int | None = None) -> None:
        self._size = size or min(MAX_GUARDS, os.cpu_count() or 1)
        self._crew: _Crew | None = None

    async def ask(self, request: Request) -> Reply:
        """Run a query; raises `EnvError` or `MachineError` for what is not the agent's doing."""
        crew = self._working_crew()
        job = _Job(request)
        loop = asyncio.get_running_loop()
        try:
            reply = await loop.run_in_executor(crew.threads, job.run, crew)
        except asyncio.CancelledError:
            job.cancel()
            raise
        except _GuardDiedError as error:
            # Only the agent's part of the work is timed by the kernel.
            if error.exit_code == -signal.SIGXCPU:
                return Reply("refused", TOO_LONG)
            raise MachineError(f"a guard process ended: {error}", kind="crash") from error
        if reply["outcome"] == "fault":
            raise EnvError(reply["text"], kind=reply["kind"])
        return Reply(reply["outcome"], reply["text"], reply.get("is_match", False))

    def pids(self) -> list[int]:
        """Process ids of the guards that live."""
        return self._crew.pids() if self._crew else []

    async def aclose(self) -> None:
        """End all guards; idempotent. The pool starts new ones when it is asked again."""
        crew, self._crew = self._crew, None
        if crew is not None:
            await asyncio.to_thread(crew.close)

    def _working_crew(self) -> _Crew:
        # After a fork the pipes still lead to the parent's guards: start over.
        if self._crew is None or self._crew.pid != os.getpid():
            self._crew = _Crew(self._size)
            weakref.finalize(self, self._crew.close)
        return self._crew
