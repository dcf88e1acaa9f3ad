"""Who sits where in the sampler's cache: slots that are free, answering, or left as they are.

A slot keeps its contents when its request is answered, until somebody goes on with that
conversation or nobody did for longest and the slot is needed.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from practicum.core.agent import Sampling


@dataclass(frozen=True)
class Generated:
    """An answer in tokens."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    is_cut: bool


@dataclass(eq=False)
class Slot:
    """A place in the cache and what it holds: the first `fed` of `ids`."""

    index: int
    ids: list[int]
    fed: int = 0
    request: Request | None = None

    def occupy(self, request: Request) -> None:
        """Answer a request here."""
        self.ids, self.request, request.slot = request.ids, request, self


@dataclass(eq=False)
class Request:
    """An answer that somebody waits for."""

    ids: list[int]
    """The prompt; the answer is appended when it is whole."""
    limit: int
    sampling: Sampling
    seed: int
    future: asyncio.Future[Generated]
    said: list[int] = field(default_factory=list)
    """The part of the answer that must be fed again after an interruption."""
    slot: Slot | None = None
    source: Slot | None = None
    """The slot to copy the first `num_shared` tokens from, once it has them."""
    source_ids: list[int] | None = None
    num_shared: int = 0


class Places:
    """The slots nobody has a request in."""

    def __init__(self, slots: Sequence[Slot]) -> None:
        self._slots = slots
        self._free = list(reversed(slots))
        self._parked: OrderedDict[int, tuple[int, ...]] = OrderedDict()
        """Slots and the whole conversation each holds, oldest first."""
        self._parked_with: dict[tuple[int, ...], list[Slot]] = {}

    def take(self) -> Slot | None:
        """A free slot, or the one that was left longest ago."""
        if self._free:
            return self._free.pop()
        if self._parked:
            return self._unpark(self._slots[next(iter(self._parked))])
        return None

    def take_holding(self, conversation: tuple[int, ...]) -> Slot | None:
        """A slot that was left with just this conversation."""
        slots = self._parked_with.get(conversation)
        return self._unpark(slots[-1]) if slots else None

    def park(self, slot: Slot, conversation: tuple[int, ...]) -> None:
        """Leave a slot with what it holds."""
        self._parked[slot.index] = conversation
        self._parked_with.setdefault(conversation, []).append(slot)

    def release(self, slot: Slot) -> None:
        """Empty a slot."""
        slot.request, slot.ids, slot.fed = None, [], 0
        self._free.append(slot)

    def forget(self) -> None:
        """Nothing that slots were left with is worth anything any more."""
        self._free = [slot for slot in reversed(self._slots) if slot.request is None]
        self._parked.clear()
        self._parked_with.clear()

    def _unpark(self, slot: Slot) -> Slot:
        conversation = self._parked.pop(slot.index)
        holders = self._parked_with[conversation]
        holders.remove(slot)
        if not holders:
            del self._parked_with[conversation]
        return slot
