"""Our WebSocket protocol, server side. One JSON message in, one JSON message out.

| message | answer |
|---|---|
| `open` env, task (an id, or the whole task) | `opened` lease, ttl_s, task, observation, state |
| `step` lease, seq, action | `result` observation, state, reward, done, success, refused, info |
| `renew` lease | `renewed` ttl_s |
| `close` lease | `closed` |

`seq` counts an episode's steps from 1; a number that was answered is answered again from
the record and not carried out again. Flags that are false are left out. Any message can be
answered by `error` (error, kind, boundary), and `open` by `busy` (error, retry_after_s).

A lease is not tied to its connection: it lives until it is closed or has not been used or
renewed for its time to live, and a worker process that gets a message for a lease of
another one passes it on.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from practicum.core.env import Environment
from practicum.core.errors import EnvError, EpisodeError
from practicum.core.message import Action
from practicum.envs.http import wire
from practicum.envs.http.leases import BusyError, LeaseTable
from practicum.envs.http.peers import Peers
from practicum.envs.http.taskbook import TaskBook

Message = Mapping[str, Any]


class NativeService:
    """Answers messages."""

    def __init__(
        self, environments: Mapping[str, Environment], leases: LeaseTable, peers: Peers
    ) -> None:
        self._environments = environments
        self._books = {env_id: TaskBook(env) for env_id, env in environments.items()}
        self._leases = leases
        self._peers = peers
        self._answers: Mapping[str, Callable[[Message], Awaitable[Message]]] = {
            "open": self._open,
            "step": self._step,
            "renew": self._renew,
            "close": self._close,
        }

    async def answer(self, text: str, *, is_passed_on: bool = False) -> str:
        """Answer a message; never raises for anything that it says."""
        try:
            try:
                return await self._answer(text)
            except BusyError as busy:
                return await self._ask_others(
                    text, busy, () if is_passed_on else self._peers.others
                )
        except EpisodeError as error:
            return wire.write({"type": "error", **wire.write_error(error)})
        except ValueError as error:
            unreadable = EnvError(f"not a message: {error}", kind="bad-request")
            return wire.write({"type": "error", **wire.write_error(unreadable)})

    async def _answer(self, text: str) -> str:
        message = json.loads(text)
        kind = message.get("type") if isinstance(message, dict) else None
        if not isinstance(kind, str) or kind not in self._answers:
            raise EnvError(f"no message is called {kind!r}", kind="bad-request")
        lease = message.get("lease")
        if isinstance(lease, int):
            owner = lease % self._leases.num_workers
            if owner != self._leases.worker:
                return await self._peers.pass_on_message(owner, text)
        elif kind != "open":
            raise EnvError("lease must be a whole number", kind="bad-request")
        return wire.write(await self._answers[kind](message))

    async def _ask_others(self, text: str, busy: BusyError, others: Sequence[int]) -> str:
        """Find a free place on another worker."""
        for other in others:
            answer = await self._peers.pass_on_message(other, text)
            if json.loads(answer).get("type") == "opened":
                return answer
        wait_s = busy.retry_after_s
        return wire.write({"type": "busy", "error": str(busy), "retry_after_s": wait_s})

    async def _open(self, message: Message) -> Message:
        env_id = message.get("env")
        if not isinstance(env_id, str) or env_id not in self._environments:
            raise EnvError(f"{env_id!r} is not served here", kind="wrong-environment")
        task = self._books[env_id].find(message.get("task"))
        lease = self._leases.grant(self._environments[env_id])
        try:
            first = await self._leases.start(lease, task)
        except BaseException:
            await self._leases.close(lease.id)
            raise
        return {
            "type": "opened",
            "lease": lease.id,
            "ttl_s": self._leases.ttl_s,
            "task": task.id,
            "observation": wire.write_observation(first),
            "state": lease.state,
        }

    async def _step(self, message: Message) -> Message:
        seq, action = message.get("seq"), message.get("action")
        if not isinstance(seq, int) or not isinstance(action, str):
            raise EnvError("a step needs a number and an action", kind="bad-request")
        lease = self._leases.find(message["lease"])
        result = await self._leases.step(lease, Action(action), seq)
        return {"type": "result", "seq": seq, **wire.write_result(result, lease.state)}

    async def _renew(self, message: Message) -> Message:
        self._leases.find(message["lease"])
        return {"type": "renewed", "ttl_s": self._leases.ttl_s}

    async def _close(self, message: Message) -> Message:
        # Closing twice is no mistake: the first answer may have been lost.
        await self._leases.close(message["lease"])
        return {"type": "closed"}
