"""The sampler: many conversations at once over one cache of fixed shape.

Every request owns a slot of the cache while it is answered. The slot keeps its contents
afterwards, so that the next turn of the same episode feeds only what is new, and a prompt
that begins like another one copies that beginning instead of computing it again.

A step feeds rows, one token each: one for every slot that is sampling and, in the same
step, tokens of prompts that wait. The engine runs as a coroutine on the event loop of its
users: on a CPU everything happens in one order that depends on nothing but the requests, so
a run can be repeated bit for bit; on a GPU the next step is under way while the loop plays
the environments.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np

from practicum.core.agent import Sampling
from practicum.policies.local.places import Generated, Places, Request, Slot
from practicum.policies.local.slots import SlotCache
from practicum.policies.local.stepper import (
    SAME_AS_SAMPLED,
    CpuStepper,
    Rows,
    Stepper,
)
from practicum.policies.local.table import SamplingTable
from practicum.policies.local.weights import LocalModel

MIN_SHARED = 16
"""Beginnings shorter than this are computed rather than copied."""


@dataclass(frozen=True)
class EngineOptions:
    """The shape of the sampler."""

    num_slots: int = 64
    """Conversations kept at once."""
    max_context: int = 2048
    """Tokens of one conversation, prompt and answers together."""
    prefill_rows: int = 2048
    """Prompt tokens fed per step, at most."""
    use_graphs: bool = True
    """CUDA graphs, on a GPU."""
    compile: bool = False
    """Fuse the model's operations with torch.compile, on a GPU."""


@dataclass
class EngineStats:
    """Counted since the last `take_stats`."""

    sampled_tokens: int = 0
    prompt_tokens: int = 0
    copied_tokens: int = 0
    steps: int = 0
    busy_slots: int = 0
    """Slots with a request, summed over steps."""
    time_s: float = 0.0


@dataclass(frozen=True)
class _Launched:
    handle: Any
    slots_B: np.ndarray
    tickets_B: np.ndarray


class Engine:
    """Samples answers for many requests at once."""

    def __init__(self, model: LocalModel, stop_ids: frozenset[int], options: EngineOptions) -> None:
        self.options = options
        self.stats = EngineStats()
        self._stop_ids = np.array(sorted(stop_ids))
        self._stepper = _make_stepper(model, options)
        self._waiting: deque[Request] = deque()
        self._feeding: list[Request] = []
        """Requests whose prompt is not wholly in the cache yet."""
        self._slots = [Slot(i, []) for i in range(options.num_slots)]
        self._places = Places(self._slots)
        self._first_with: dict[tuple[int, ...], Slot] = {}
        self._latest: Slot | None = None
        self._table = SamplingTable(options.num_slots)
        self._pump: asyncio.Task[None] | None = None
        self._is_paused = False

    async def generate(
        self, prompt: Sequence[int], num_known: int, sampling: Sampling, seed: int
    ) -> Generated:
        """Sample an answer; the first `num_known` ids are an earlier prompt and its answer."""
        limit = min(sampling.max_tokens, self.options.max_context - len(prompt))
        assert limit > 0, "the prompt leaves no room: the caller checks that"
        future: asyncio.Future[Generated] = asyncio.get_running_loop().create_future()
        request = Request(list(prompt), limit, sampling, seed, future)
        # Episodes of a group often say the same at first: several slots can hold one conversation.
        if num_known and (slot := self._places.take_holding(tuple(prompt[:num_known]))):
            slot.occupy(request)
        self._waiting.append(request)
        self._wake()
        try:
            return await future
        except asyncio.CancelledError:
            self._abandon(request)
            raise

    async def pause(self) -> None:
        """Stop after the steps under way; requests stay and wait."""
        self._is_paused = True
        if self._pump is not None and not self._pump.done():
            await asyncio.wait([self._pump])

    def resume(self, *, weights_changed: bool) -> None:
        """Go on; after a change of weights everything cached is computed again."""
        self._is_paused = False
        if weights_changed:
            self._stepper.refresh()
            self._forget()
        self._wake()

    def take_stats(self) -> EngineStats:
        """What was counted since the last call."""
        stats, self.stats = self.stats, EngineStats()
        return stats

    def _wake(self) -> None:
        is_idle = self._pump is None or self._pump.done()
        if is_idle and not self._is_paused and self._has_work():
            self._pump = asyncio.get_running_loop().create_task(self._run())

    def _has_work(self) -> bool:
        return bool(self._waiting or self._feeding or self._table.is_busy)

    async def _run(self) -> None:
        under_way: deque[_Launched] = deque()
        try:
            # Everybody who is about to ask gets to ask before the first step.
            await asyncio.sleep(0)
            while under_way or (self._has_work() and not self._is_paused):
                began = perf_counter()
                launched = None if self._is_paused else self._launch()
                if launched is not None:
                    under_way.append(launched)
                if under_way and (launched is None or len(under_way) > self._stepper.depth):
                    self._collect(under_way.popleft())
                self.stats.time_s += perf_counter() - began
                # Whoever got an answer plays on and asks again before the next step.
                await asyncio.sleep(0)
        except Exception as error:  # noqa: BLE001 - handed to everybody who waits
            self._fail(error)

    def _launch(self) -> _Launched | None:
        self._admit()
        slots_D, positions_D = self._table.take_decode_rows()
        ids = [np.full(len(slots_D), SAME_AS_SAMPLED)]
        slots, positions = [slots_D], [positions_D]
        runs: list[tuple[int, int, int]] = []
        samples = list(range(len(slots_D)))
        fed: list[tuple[Slot, int]] = []
        num_rows, budget = len(slots_D), self.options.prefill_rows
        for request in list(self._feeding):
            count = min(budget, self._num_ready(request))
            if count <= 0:
                continue
            slot = request.slot
            assert slot is not None
            start, end = slot.fed, slot.fed + count
            ids.append(np.array((request.ids + request.said)[start:end]))
            slots.append(np.full(count, slot.index))
            positions.append(np.arange(start, end))
            runs.append((slot.index, start, count))
            fed.append((slot, end))
            num_rows, budget = num_rows + count, budget - count
            self.stats.prompt_tokens += count
            if end == len(request.ids) + len(request.said):
                self._feeding.remove(request)
                self._table.start(
                    slot.index,
                    len(request.ids),
                    len(request.said),
                    request.limit,
                    request.sampling,
                    request.seed,
                )
                samples.append(num_rows - 1)
        if not num_rows:
            return None
        slots_R = np.concatenate(slots)
        samples_B = np.array(samples, dtype=np.int64)
        rows = Rows(
            np.concatenate(ids),
            slots_R,
            np.concatenate(positions),
            len(slots_D),
            runs,
            samples_B,
            *self._table.draws(slots_R[samples_B]),
        )
        self.stats.steps += 1
        self.stats.busy_slots += sum(slot.request is not None for slot in self._slots)
        handle = self._stepper.launch(rows)
        for slot, end in fed:  # only now: nobody may copy what is not on its way
            slot.fed = end
        slots_B = slots_R[samples_B]
        return _Launched(handle, slots_B, self._table.tickets_S[slots_B])

    def _num_ready(self, request: Request) -> int:
        """Prompt tokens that can be fed now; copies a shared beginning when it is there."""
        slot = request.slot
        assert slot is not None
        if request.source is not None:
            source = request.source
            if source.ids is request.source_ids and source.fed < request.num_shared:
                return 0  # it is being computed for the other request
            if source.ids is request.source_ids:
                self._stepper.cache.copy(source.index, slot.index, request.num_shared)
                self.stats.copied_tokens += request.num_shared
                slot.fed = request.num_shared
            request.source = request.source_ids = None
        return len(request.ids) + len(request.said) - slot.fed

    def _admit(self) -> None:
        """Give waiting requests a slot, and find whose beginning they share."""
        for _ in range(len(self._waiting)):
            request = self._waiting.popleft()
            if request.future.cancelled():
                if request.slot is not None:
                    self._places.release(request.slot)
                continue
            if request.slot is None:
                slot = self._places.take()
                if slot is None:
                    self._waiting.append(request)
                    continue
                slot.fed = 0
                self._share(request, slot)
                slot.occupy(request)
            self._feeding.append(request)

    def _share(self, request: Request, slot: Slot) -> None:
        key = tuple(request.ids)
        if len(self._first_with) > 4 * len(self._slots):
            self._first_with.clear()
        for source in (self._first_with.get(key), self._latest):
            if source is None or source is slot:
                continue
            shared = _common_prefix(source.ids, request.ids[:-1])
            if source.request is None:
                shared = min(shared, source.fed)
            if shared >= MIN_SHARED:
                request.source, request.source_ids = source, source.ids
                request.num_shared = shared
                break
        known = self._first_with.get(key)
        if known is None or _common_prefix(known.ids, request.ids) < len(key):
            self._first_with[key] = slot
        self._latest = slot

    def _collect(self, launched: _Launched) -> None:
        ids_B, logprobs_B = self._stepper.collect(launched.handle)
        table = self._table
        is_current_B = table.tickets_S[launched.slots_B] == launched.tickets_B
        slots_B = launched.slots_B[is_current_B]
        self.stats.sampled_tokens += len(slots_B)
        ended_B = table.record(
            slots_B, ids_B[is_current_B], logprobs_B[is_current_B], self._stop_ids
        )
        for index in slots_B[ended_B].tolist():
            self._finish(self._slots[index])

    def _finish(self, slot: Slot) -> None:
        request = slot.request
        assert request is not None
        ids, logprobs = self._table.end(slot.index)
        is_cut = ids[-1] not in self._stop_ids
        request.ids.extend(ids)
        slot.fed = len(request.ids) - 1
        slot.request = None
        self._places.park(slot, tuple(request.ids))
        if not request.future.done():
            request.future.set_result(Generated(tuple(ids), tuple(logprobs), is_cut))

    def _abandon(self, request: Request) -> None:
        """Nobody waits for it any more: its slot is free at once, and what is under way ignored."""
        slot = request.slot
        if slot is None or slot.request is not request or request in self._waiting:
            return  # `_admit` passes by who waits
        if request in self._feeding:
            self._feeding.remove(request)
        else:
            self._table.end(slot.index)
        self._places.release(slot)

    def _forget(self) -> None:
        """Drop everything cached; requests under way are fed again with what they said."""
        self._places.forget()
        self._first_with.clear()
        self._latest = None
        for slot in self._slots:
            slot.fed = 0
            if slot.request is None:
                slot.ids = []
        for index in self._table.busy_slots():
            request = self._slots[index].request
            assert request is not None
            request.said = self._table.interrupt(index)
            self._feeding.append(request)
        self._share_again([slot.request for slot in self._slots if slot.request is not None])

    def _share_again(self, requests: list[Request]) -> None:
        """All of these are fed from the start: beginnings they share are computed once."""
        requests.sort(key=lambda request: request.ids)
        # Of requests in order, the one before shares most; the earliest with as much has it first.
        shared = [0]
        for before, request in pairwise(requests):
            shared.append(_common_prefix(before.ids, request.ids[:-1]))
        for i, request in enumerate(requests):
            request.source = request.source_ids = None
            if shared[i] < MIN_SHARED:
                continue
            earliest = i - 1
            while shared[earliest] >= shared[i]:
                earliest -= 1
            source = requests[earliest].slot
            assert source is not None
            request.source, request.source_ids = source, source.ids
            request.num_shared = shared[i]

    def _fail(self, error: Exception) -> None:
        requests = [*self._waiting, *(s.request for s in self._slots if s.request is not None)]
        self._waiting.clear()
        self._feeding.clear()
        self._table = SamplingTable(self.options.num_slots)
        for slot in self._slots:
            slot.request = None
        self._forget()
        for request in requests:
            if not request.future.done():
                request.future.set_exception(error)


def _make_stepper(model: LocalModel, options: EngineOptions) -> Stepper:
    cache = SlotCache(
        model.network.config, options.num_slots, options.max_context, model.dtype, model.device
    )
    if model.device.type == "cuda":
        from practicum.policies.local.cuda_stepper import CudaStepper

        return CudaStepper(
            model, cache, use_graphs=options.use_graphs, compile_model=options.compile
        )
    return CpuStepper(model, cache)


def _common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """How many leading elements are equal, by bisection: slices compare at C speed."""
    low, high = 0, min(len(a), len(b))
    if a[:high] == b[:high]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle
    return low
