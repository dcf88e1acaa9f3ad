"""A proxy that breaks connections to order, and what the tests play through it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from enum import StrEnum

from practicum.core.agent import Act, Situation
from practicum.core.env import Environment, Script
from practicum.core.episode import Completion
from practicum.core.retry import Backoff
from practicum.rewards.outcome import judge_outcome
from practicum.rollout.play import Limits, Slots, Table

QUICK = Backoff(attempts=3, first_wait_s=0.02, longest_wait_s=0.5)


class Fault(StrEnum):
    RESET_BEFORE = "reset before the request arrives"
    RESET_AFTER = "reset instead of the answer"
    ERROR_500 = "500 and a dropped connection"
    HANG = "no answer"
    TRUNCATED = "half an answer"
    WRONG_TYPE = "a page instead of JSON"


class FaultProxy:
    """Passes bytes on; breaks the `nth` chunk a client sends that `matches`."""

    def __init__(self, upstream: str) -> None:
        self.host, port = upstream.removeprefix("http://").split(":")
        self.port = int(port)
        self.matches: Callable[[bytes], bool] = lambda _: False
        self.nth = 0
        self.fault: Fault | None = None
        self.before_fault: Callable[[], Awaitable[None]] | None = None
        self.num_faults = 0
        self._num_matched = 0

    def plan(self, fault: Fault | None, matches: Callable[[bytes], bool], nth: int = 1) -> None:
        self.fault, self.matches, self.nth, self._num_matched = fault, matches, nth, 0

    def _fault_for(self, chunk: bytes) -> bool:
        if not self.matches(chunk):
            return False
        self._num_matched += 1
        return self._num_matched == self.nth

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            up_reader, up_writer = await asyncio.open_connection(self.host, self.port)
        except OSError:
            _reset(writer)
            return
        pending: list[Fault] = []
        back = asyncio.create_task(self._pump_back(up_reader, writer, pending))
        try:
            while chunk := await reader.read(2**16):
                if self._fault_for(chunk):
                    self.num_faults += 1
                    if self.before_fault is not None:
                        await self.before_fault()
                    if self.fault is Fault.RESET_BEFORE:
                        _reset(writer)
                        return
                    if self.fault is not None:
                        pending.append(self.fault)
                up_writer.write(chunk)
                await up_writer.drain()
        except OSError:
            pass
        finally:
            back.cancel()
            with contextlib.suppress(asyncio.CancelledError, OSError):
                await back
            for end in (up_writer, writer):
                end.close()

    async def _pump_back(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pending: list[Fault]
    ) -> None:
        while chunk := await reader.read(2**16):
            fault = pending.pop() if pending else None
            if fault is Fault.HANG:
                continue
            if fault is Fault.RESET_AFTER:
                _reset(writer)
                return
            if fault is Fault.ERROR_500:
                chunk = _answer(500, "text/plain", b"Internal Server Error")
            elif fault is Fault.WRONG_TYPE:
                chunk = _answer(200, "text/html", b"<html>maintenance</html>")
            elif fault is Fault.TRUNCATED:
                chunk = chunk[: max(1, len(chunk) - 10)]
            writer.write(chunk)
            await writer.drain()
            if fault in (Fault.ERROR_500, Fault.TRUNCATED):
                writer.close()
                return
        writer.close()


def _answer(status: int, content_type: str, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status} X\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


def _reset(writer: asyncio.StreamWriter) -> None:
    raw = writer.get_extra_info("socket")
    if raw is not None:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@asynccontextmanager
async def proxying(upstream: str) -> AsyncIterator[tuple[str, FaultProxy]]:
    proxy = FaultProxy(upstream)
    jobs: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        job = asyncio.current_task()
        assert job is not None
        jobs.add(job)
        try:
            await proxy._pump(reader, writer)
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            jobs.discard(job)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", proxy
    finally:
        server.close()
        for job in list(jobs):
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)


class ScriptAgent:
    """Says what a script decides."""

    system = "Play."

    def __init__(self, script: Script) -> None:
        self._script = script

    async def act(self, situation: Situation) -> Act:
        action = self._script(situation).action
        return Act(Completion(action.text), action)


def table(environment: Environment, script: Script, max_turns: int = 30) -> Table:
    """Where the tests' episodes are played."""
    limits = Limits(max_turns, turn_timeout_s=5.0, answer_timeout_s=5.0)
    return Table(environment, ScriptAgent(script), judge_outcome, limits, Slots(64))
