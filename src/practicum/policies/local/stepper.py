"""One step of the sampler: rows in, sampled tokens out; here on a CPU, at once.

A row is one token of one slot. The token of a row is given, or, on a GPU, is the one its
slot sampled in the step before, which the host may not know yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from practicum.policies.local.lean import LeanDecoder, plain_products
from practicum.policies.local.sampling import choose
from practicum.policies.local.slots import SlotCache, SlotLayout
from practicum.policies.local.weights import LocalModel

SAME_AS_SAMPLED = -1
"""In place of a token id: what the slot sampled last."""
ARRANGE_EVERY = 16
"""Steps after which slots are put in order of their length again, on a CPU."""


@dataclass(frozen=True)
class Rows:
    """What one step is to do. R rows, of which B are sampled from."""

    ids_R: np.ndarray
    slots_R: np.ndarray
    positions_R: np.ndarray
    num_single: int
    """The first rows, one per slot that samples; the rest are runs of prompt tokens."""
    runs: Sequence[tuple[int, int, int]]
    """(slot, first position, length) of the rows after those."""
    samples_B: np.ndarray
    """Rows to sample from."""
    uniforms_B: np.ndarray
    temperatures_B: np.ndarray
    top_ps_B: np.ndarray


Sampled = tuple[np.ndarray, np.ndarray]
"""Ids and log-probabilities, in the order of `samples_B`."""


class Stepper(Protocol):
    """Runs steps in order."""

    depth: int
    """How many steps may be under way before the first must be collected."""
    cache: SlotCache

    def refresh(self) -> None:
        """The weights have changed: drop what was made from them."""
        ...

    def launch(self, rows: Rows) -> Any:
        """Start a step."""
        ...

    def collect(self, handle: Any) -> Sampled:
        """Wait for a step."""
        ...


class CpuStepper:
    """Steps that are done when they return; nothing is padded."""

    depth = 0

    def __init__(self, model: LocalModel, cache: SlotCache) -> None:
        self.cache = cache
        self._network = model.network
        self._dtype = model.dtype
        self._last_ids = np.zeros(cache.num_slots + 1, np.int64)
        self._lean: LeanDecoder | None = None
        self._is_fresh = False
        self._num_steps = 0

    def refresh(self) -> None:
        """Copy the weights again before the next step; what is cached is of no use to them."""
        self._is_fresh = False
        self._num_steps = 0
        self.cache.forget()

    @torch.inference_mode()
    def launch(self, rows: Rows) -> Sampled:
        """Run the step."""
        if not self._is_fresh:
            self._lean, self._is_fresh = LeanDecoder.of(self._network), True
        self._place(rows)
        with plain_products(self._dtype):
            logits = self._logits(rows)
        is_cut = bool((rows.top_ps_B < 1).any())
        ids_B, logprobs_B = choose(
            logits,
            torch.from_numpy(rows.temperatures_B),
            torch.from_numpy(rows.uniforms_B),
            torch.from_numpy(rows.top_ps_B) if is_cut else None,
        )
        sampled = ids_B.numpy()
        self._last_ids[rows.slots_R[rows.samples_B]] = sampled
        return sampled, logprobs_B.numpy()

    def collect(self, handle: Sampled) -> Sampled:
        """Hand over what `launch` computed."""
        return handle

    def _place(self, rows: Rows) -> None:
        if self._num_steps % ARRANGE_EVERY == 0:
            single = slice(rows.num_single)
            self.cache.arrange(rows.slots_R[single], rows.positions_R[single] + 1)
        self._num_steps += 1
        self.cache.note(rows.slots_R, rows.positions_R)

    def _logits(self, rows: Rows) -> Tensor:
        known = rows.ids_R != SAME_AS_SAMPLED
        ids_R = torch.from_numpy(np.where(known, rows.ids_R, self._last_ids[rows.slots_R]))
        positions_R = torch.from_numpy(rows.positions_R)
        samples_B = torch.from_numpy(rows.samples_B)
        layout = SlotLayout(self.cache, rows.slots_R, rows.positions_R, rows.num_single, rows.runs)
        if self._lean is not None:
            return self._lean.logits(self._lean.hidden(ids_R, positions_R, layout, samples_B))
        hidden = hidden_states(self._network, ids_R, positions_R, layout, samples_B)
        logits: Tensor = output_head(self._network)(hidden)
        return logits


def hidden_states(
    network: Any, ids_N: Tensor, positions_N: Tensor, layout: Any, rows_B: Tensor | None = None
) -> Tensor:
    """The last layer's output for N tokens arranged as the layout says, or for B of them."""
    decoder = network.get_decoder() if hasattr(network, "get_decoder") else network.model
    out = decoder(
        input_ids=ids_N[None], position_ids=positions_N[None], use_cache=False, layout=layout
    )
    hidden: Tensor = out.last_hidden_state[0]
    return hidden if rows_B is None else hidden[rows_B]


def lean_hidden_states(
    network: Any, ids_N: Tensor, positions_N: Tensor, layout: Any, rows_B: Tensor | None = None
) -> Tensor:
    """The same, on a CPU, in fewer operations where the network is a known one."""
    lean = LeanDecoder.of(network)
    if lean is None:
        return hidden_states(network, ids_N, positions_N, layout, rows_B)
    return lean.hidden(ids_N, positions_N, layout, rows_B)


def output_head(network: Any) -> Any:
    """The layer from the last hidden state to logits."""
    return network.get_output_embeddings()
