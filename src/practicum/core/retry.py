"""Repeating a call that is safe to repeat: bounded, with jitter, and on the server's terms."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Backoff:
    """How often to try, and how long to wait in between."""

    attempts: int = 5
    first_wait_s: float = 0.5
    longest_wait_s: float = 60.0
    """A server that asks for more is not waited for."""

    def wait_s(self, attempt: int, asked_s: float | None) -> float | None:
        """Seconds to wait after a failed attempt (from 1), or None to give up.

        What the server asked for is a lower bound; the jitter on top keeps clients that
        were turned away together from coming back together.
        """
        if attempt >= self.attempts:
            return None
        if asked_s is not None:
            return None if asked_s > self.longest_wait_s else asked_s * random.uniform(1.0, 1.1)
        ceiling: float = min(self.longest_wait_s, self.first_wait_s * 2.0 ** (attempt - 1))
        return ceiling * random.uniform(0.5, 1.0)


@dataclass(frozen=True, slots=True)
class Again:
    """The verdict on a failed call: worth another try, perhaps not before some seconds."""

    asked_s: float | None = None


async def retry(
    call: Callable[[], Awaitable[Result]],
    judge: Callable[[Exception], Again | None],
    backoff: Backoff,
    on_wait: Callable[[Exception, float], None] | None = None,
) -> Result:
    """Call until it succeeds, `judge` says no, or the attempts are used up."""
    attempt = 0
    while True:
        attempt += 1
        try:
            return await call()
        except Exception as error:
            verdict = judge(error)
            wait_s = backoff.wait_s(attempt, verdict.asked_s) if verdict else None
            if wait_s is None:
                raise
            if on_wait is not None:
                on_wait(error, wait_s)
        await asyncio.sleep(wait_s)


def read_retry_after(header: str | None) -> float | None:
    """Read a `Retry-After` header given in seconds; dates and nonsense count as none."""
    if header is None:
        return None
    try:
        seconds = float(header)
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None
