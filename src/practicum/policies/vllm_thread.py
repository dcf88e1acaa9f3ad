"""The thread that owns vLLM's engine.

It takes in what was asked, steps the engine as long as there is something to sample, and
hands each answer over the moment it is complete. A call such as new weights waits for the
answers under way, and what is asked after it waits for it: an answer is always the work of
one version of the weights.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from queue import SimpleQueue
from threading import Thread
from typing import Any

from practicum.core.errors import ConfigError, PolicyError

_MESSAGE_CHARS = 400
"""vLLM repeats whole configurations in its errors."""

Answer = tuple[Any, int]
"""vLLM's `RequestOutput`, and the version of the weights it was sampled with."""


@dataclass
class _Ask:
    """An answer wanted."""

    id: str
    ids: tuple[int, ...]
    params: Any
    future: Future[Answer] = field(default_factory=Future)


@dataclass
class _Call:
    """Something to be done while nothing is being sampled."""

    function: Callable[[Any], object]
    future: Future[None] = field(default_factory=Future)


@dataclass
class _Abort:
    """An answer no longer wanted."""

    id: str


_STOP = None


class EngineThread:
    """The only one that touches the engine, which is not made for several threads."""

    def __init__(self, make_engine: Callable[[], Any], version: int) -> None:
        self.version: int | None = version
        """Of the weights; changed only by a call."""
        self._make_engine = make_engine
        self._inbox: SimpleQueue[_Ask | _Call | _Abort | None] = SimpleQueue()
        self._waiting: deque[_Ask | _Call] = deque()
        self._under_way: dict[str, tuple[_Ask, int]] = {}
        self._numbers = count()
        self._is_open = True
        self._started: Future[Any] = Future()
        self._thread = Thread(target=self._run, name="vllm-engine", daemon=True)

    def start(self) -> Any:
        """Make the engine and wait for it; returns the configuration of its model."""
        self._thread.start()
        try:
            return self._started.result()
        except ConfigError:
            self._is_open = False
            raise
        except Exception as error:
            self._is_open = False
            raise ConfigError(f"vLLM cannot start: {_brief(error)}") from error

    async def sample(self, ids: tuple[int, ...], params: Any) -> Answer:
        """Have one answer sampled."""
        self._require_open()
        ask = _Ask(str(next(self._numbers)), ids, params)
        self._inbox.put(ask)
        try:
            return await asyncio.wrap_future(ask.future)
        except asyncio.CancelledError:
            ask.future.cancel()
            self._inbox.put(_Abort(ask.id))
            raise

    async def call(self, function: Callable[[Any], object]) -> None:
        """Run a function on the engine after all that was asked before."""
        self._require_open()
        call = _Call(function)
        self._inbox.put(call)
        await asyncio.wrap_future(call.future)

    async def stop(self) -> None:
        """End the thread and the engine; idempotent."""
        if self._is_open:
            # Here and not in the other thread: nothing is asked behind the stop.
            self._is_open = False
            self._inbox.put(_STOP)
        await asyncio.to_thread(self._thread.join)

    def _require_open(self) -> None:
        if not self._is_open:
            raise PolicyError("the vLLM engine is closed: make a new policy", kind="closed")

    def _run(self) -> None:
        try:
            engine = self._make_engine()
        except BaseException as error:  # noqa: BLE001 - handed to `start`, which raises it
            self._started.set_exception(error)
            return
        self._started.set_result(engine.model_config)
        try:
            while self._receive(engine):
                self._admit(engine)
                if self._under_way:
                    self._step(engine)
        finally:
            self._is_open = False
            self._fail_the_rest()
            engine.engine_core.shutdown()

    def _fail_the_rest(self) -> None:
        closed = PolicyError("the vLLM engine was closed before it answered", kind="closed")
        for ask, _ in self._under_way.values():
            ask.future.set_exception(closed)
        for item in self._waiting:
            if item.future.set_running_or_notify_cancel():
                item.future.set_exception(closed)

    def _receive(self, engine: Any) -> bool:
        """Take in what arrived; wait for it when there is nothing to do. False: stop."""
        is_idle = not (self._under_way or self._waiting)
        while is_idle or not self._inbox.empty():
            is_idle = False
            item = self._inbox.get()
            if item is _STOP:
                return False
            if not isinstance(item, _Abort):
                self._waiting.append(item)
            elif self._under_way.pop(item.id, None) is not None:
                engine.abort_request([item.id])
        return True

    def _admit(self, engine: Any) -> None:
        while self._waiting:
            item = self._waiting[0]
            if isinstance(item, _Call) and self._under_way:
                return
            self._waiting.popleft()
            if not item.future.set_running_or_notify_cancel():
                continue
            if isinstance(item, _Call):
                with _failing(item.future, "vLLM could not do as told", "engine-error"):
                    item.function(engine)
                    item.future.set_result(None)
            else:
                self._add(engine, item)

    def _add(self, engine: Any, ask: _Ask) -> None:
        if self.version is None:
            lost = "vLLM's weights are neither old nor new since a load failed: make a new policy"
            ask.future.set_exception(PolicyError(lost, kind="no-weights"))
            return
        with _failing(ask.future, "vLLM takes no such request", "refused"):
            prompt = {"type": "token", "prompt_token_ids": list(ask.ids)}
            engine.add_request(ask.id, prompt, ask.params)
            self._under_way[ask.id] = (ask, self.version)

    def _step(self, engine: Any) -> None:
        try:
            outputs = engine.step()
        except Exception as error:  # noqa: BLE001 - renamed, and raised where it was asked
            lost = PolicyError(f"a step of vLLM failed: {_brief(error)}", kind="engine-error")
            lost.__cause__ = error
            engine.abort_request(list(self._under_way))
            for ask, _ in self._under_way.values():
                ask.future.set_exception(lost)
            self._under_way.clear()
            return
        for output in outputs:
            if output.finished and output.request_id in self._under_way:
                ask, version = self._under_way.pop(output.request_id)
                ask.future.set_result((output, version))


@contextmanager
def _failing(future: Future[Any], what: str, kind: str) -> Iterator[None]:
    """Give a failure a name and hand it to whoever waits for the future."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - renamed, and raised where it was asked
        named = PolicyError(f"{what}: {_brief(error)}", kind=kind)
        named.__cause__ = error
        future.set_exception(named)


def _brief(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:_MESSAGE_CHARS]
