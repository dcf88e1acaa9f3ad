"""Sessions: what an agent asked under one key, what it was answered, what that was worth.

A session is open, then ended, then exported and forgotten. Calls and rewards belong to the first
stage only, so that an export is whole. A session that nobody uses for `ttl_s` is forgotten.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from practicum.core.errors import EpisodeError
from practicum.core.leases import LeaseBook
from practicum.core.tokens import MIN_CHARACTERS
from practicum.policies.proxy.conversation import Answer, Ask, RefusedError
from practicum.policies.proxy.upstream import Known

logger = logging.getLogger(__name__)

NOT_SET = 422
"""For a reward that cannot be set. AReaL's client logs a 400 and goes on as if it had been."""


@dataclass(eq=False, slots=True)
class Call:
    """One answer on record."""

    id: str
    ask: Ask
    answer: Answer
    parent: Call | None
    """The call whose messages and answer this one goes on from."""
    created_s: float = field(default_factory=time.time)
    reward: float | None = None


@dataclass(slots=True)
class Fault:
    """A call that broke for a reason the agent could not cause."""

    kind: str
    """`boundary/cause`, as in `policy/timeout`."""
    message: str
    num_calls: int
    """Answers on record when it happened."""
    conversation: str
    """The key of what was asked."""
    is_healed: bool = False
    """The same was asked again and answered."""


@dataclass(eq=False)
class Session:
    """Everything asked under one key."""

    id: str
    task_id: str
    key_hash: bytes = field(repr=False)
    calls: dict[str, Call] = field(default_factory=dict)
    """By id, in the order in which they were answered."""
    faults: list[Fault] = field(default_factory=list)
    is_ended: bool = False
    is_refused: bool = False
    """Its export was refused: kept to be looked at, and the first to make room."""
    num_users: int = 0
    expires_s: float = 0.0
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    _after: dict[str, Call] = field(default_factory=dict, repr=False)
    """Calls by the key of their conversation, answer included."""

    def find(self, keys: Sequence[str]) -> tuple[Call | None, Known | None]:
        """The longest beginning of a conversation that was answered here."""
        for number in range(len(keys) - 1, 0, -1):
            call = self._after.get(keys[number])
            if call is not None:
                return call, Known(call.answer.completion, number)
        return None, None

    def record(
        self, call_id: str, ask: Ask, keys: Sequence[str], answers: Sequence[Answer]
    ) -> None:
        """Put answers on record; several to one request have numbers behind its id."""
        self.require_open()
        parent, known = self.find(keys)
        if parent is not None and known is not None:
            # The same by content, and pictures are large: a conversation is kept once.
            before = (*parent.ask.messages, parent.answer.said)
            ask = replace(ask, messages=before + ask.messages[known.num_messages :])
        for number, answer in enumerate(answers):
            name = call_id if len(answers) == 1 else f"{call_id}-{number}"
            call = Call(name, ask, answer, parent)
            self.calls[name] = call
            self._after[answer.said.key(keys[-1])] = call
        for fault in self.faults:
            if fault.conversation == keys[-1]:
                fault.is_healed = True

    def withdraw(self, call_id: str) -> None:
        """Take answers off the record that never reached the agent."""
        if self.is_ended:
            return
        for name in [n for n in self.calls if n == call_id or n.startswith(f"{call_id}-")]:
            call = self.calls.pop(name)
            self._after = {key: c for key, c in self._after.items() if c is not call}

    def fail(self, error: EpisodeError, conversation: str) -> Fault:
        """Put a fault on record."""
        kind = f"{error.boundary}/{error.kind}"
        fault = Fault(kind, str(error), len(self.calls), conversation)
        if not self.is_ended:
            self.faults.append(fault)
        return fault

    def set_reward(self, call_id: str | None, reward: float) -> None:
        """Say what a call was worth; None means the last one."""
        self.require_open()
        if not math.isfinite(reward):
            raise _bad_reward(f"a reward is a finite number, and this is {reward}")
        if not self.calls:
            raise _bad_reward("there is no completion yet that a reward could be for")
        if call_id is None:
            call_id = next(reversed(self.calls))
        if call_id not in self.calls:
            raise _bad_reward(
                f"no completion {call_id!r} in this session; the last is "
                f"{next(reversed(self.calls))!r}"
            )
        self.calls[call_id].reward = reward

    def end(self) -> None:
        """Let nothing more in."""
        self.is_ended = True
        self.ended.set()

    def require_open(self) -> None:
        """Refuse what comes too late."""
        if self.is_ended:
            raise RefusedError(
                f"session {self.id} has ended: start a new one", kind="session-ended", status=410
            )

    @property
    def fault(self) -> Fault | None:
        """The first fault that was not made good: the session says nothing about the policy."""
        return next((fault for fault in self.faults if not fault.is_healed), None)


class Sessions:
    """All sessions of a proxy."""

    def __init__(self, ttl_s: float, max_sessions: int, capacity: int | None) -> None:
        self.capacity = capacity
        """How many more may be started; None: any number."""
        self._max_sessions = max_sessions
        # Never used twice: whoever holds an old id must not be given another's session.
        self._numbers = count()
        self._by_id: LeaseBook[str, Session] = LeaseBook(ttl_s)
        self._by_key: dict[bytes, Session] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Session]:
        return iter(self._by_id.values())

    def grant(self) -> int | None:
        """Allow one more session, where they are counted."""
        if self.capacity is not None:
            self.capacity += 1
        return self.capacity

    def start(self, task_id: str, key: str | None) -> tuple[Session, str]:
        """Start a session under a new key, or under one that is given; gives the key, too."""
        if self.capacity is not None and self.capacity <= 0:
            raise RefusedError("no capacity is left: grant some", kind="no-capacity", status=429)
        refused = next((session for session in self if session.is_refused), None)
        if len(self) >= self._max_sessions and refused is not None:
            self.remove(refused)
        if len(self) >= self._max_sessions:
            raise RefusedError(
                f"{len(self)} sessions are held already: export some", kind="busy", status=429
            )
        key = key or secrets.token_urlsafe(32)
        if len(key) < MIN_CHARACTERS or not key.isascii() or not key.isprintable() or " " in key:
            raise RefusedError(
                f"api_key: a key has at least {MIN_CHARACTERS} printable characters",
                param="api_key",
            )
        digest = hash_key(key)
        bound = self._by_key.get(digest)
        if bound is not None and not bound.is_ended:
            raise RefusedError(
                f"this key is bound to session {bound.id}, which has not ended",
                kind="key-in-use",
                status=409,
            )
        session = Session(f"{task_id}-{next(self._numbers)}", task_id, digest)
        if self.capacity is not None:
            self.capacity -= 1
        self._by_id.add(session.id, session)
        self._by_key[digest] = session
        return session, key

    def of_key(self, key: str) -> Session | None:
        """The session of a key. Keys are kept and looked up as hashes: time tells nothing."""
        session = self._by_key.get(hash_key(key))
        if session is not None:
            self._by_id.renew(session.id)
        return session

    def get(self, session_id: str) -> Session:
        """The session of an id, or a refusal."""
        session = self._by_id.get(session_id)
        if session is None:
            raise RefusedError(
                f"there is no session {session_id!r}: it was exported, it was left unused for "
                f"more than {self._by_id.ttl_s:g} s, or it never was",
                kind="unknown-session",
                status=404,
            )
        self._by_id.renew(session_id)
        return session

    def remove(self, session: Session) -> None:
        """Forget a session and its key."""
        session.end()
        self._by_id.pop(session.id)
        if self._by_key.get(session.key_hash) is session:
            del self._by_key[session.key_hash]

    async def sweep_for_ever(self) -> None:
        """Forget sessions the moment they run out."""

        async def end(session_id: str, session: Session) -> None:
            logger.warning("session %s ran out with %d calls", session_id, len(session.calls))
            self.remove(session)

        await self._by_id.sweep_for_ever(end)


def hash_key(key: str) -> bytes:
    """What is kept of a key."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


def _bad_reward(message: str) -> RefusedError:
    return RefusedError(message, param="reward", kind="bad-reward", status=NOT_SET)
