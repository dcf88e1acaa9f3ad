"""Keys and values that sampling keeps, slot by slot, and how a CPU attends to them.

On a CPU attention reads the cache as fast as memory gives it and no faster, and slots that are
read together are read as far as the longest of them. Slots are therefore kept in order of their
length: where one lies is not its number but its place, and `arrange` moves them now and then.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

BLOCK = 16
"""Places that are read together: more would wait for their longest, fewer cost more calls."""
_AT_ONCE = platform.machine() in ("x86_64", "AMD64")
"""Whether the queries of a group read their keys together: on x86 that takes a quarter less time
with two of them and half with four; on ARM, where a matrix is packed first and a vector is not, one
at a time is quicker."""


class SlotCache:
    """Keys and values of every slot, with one more slot that padding may write to."""

    def __init__(
        self, config: Any, num_slots: int, num_tokens: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.num_slots = num_slots
        heads = config.num_attention_heads
        head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
        key_heads = getattr(config, "num_key_value_heads", None) or heads
        shape = [config.num_hidden_layers, 2, num_slots + 1, num_tokens, key_heads, head_dim]
        if device.type == "cpu":
            # The keys of a head lie together: attention reads them a fifth faster.
            shape[3:5] = key_heads, num_tokens
        values = torch.zeros(shape, dtype=dtype, device=device)
        self.values_L_2_P_T_K_D = values.transpose(3, 4) if device.type == "cpu" else values
        self.places_S = np.arange(num_slots + 1)
        """Where slots lie; on a GPU, where lengths cost nothing, at their number."""
        self._filled_S = np.zeros(num_slots + 1, np.int64)

    def note(self, slots_N: np.ndarray, positions_N: np.ndarray) -> None:
        """These tokens are about to be written, those of a slot in their order."""
        self._filled_S[slots_N] = positions_N + 1

    def copy(self, source: int, target: int, num_tokens: int) -> None:
        """Give a slot the first tokens of another one."""
        values, places = self.values_L_2_P_T_K_D, self.places_S
        values[:, :, places[target], :num_tokens] = values[:, :, places[source], :num_tokens]
        self._filled_S[target] = num_tokens

    def forget(self) -> None:
        """Nothing that is cached will be read again: every slot back to where it began."""
        self.places_S = np.arange(self.num_slots + 1)
        self._filled_S[:] = 0

    def arrange(self, slots_B: np.ndarray, lengths_B: np.ndarray) -> None:
        """Move slots so that those which sample lie in order of their length, the others last."""
        lengths_S = np.zeros(self.num_slots, np.int64)
        lengths_S[slots_B] = lengths_B
        old_S, new_S = self.places_S[:-1], self.places_S[:-1].copy()
        order = np.lexsort((old_S, -lengths_S))
        # A slot stays where it is while that is in the right block.
        wanted_S = np.empty_like(order)
        wanted_S[order] = np.arange(self.num_slots) // BLOCK
        moving = np.flatnonzero(wanted_S != old_S // BLOCK)
        if not len(moving):
            return
        vacant = np.sort(old_S[moving])
        moving = moving[np.argsort(wanted_S[moving], kind="stable")]
        new_S[moving] = vacant
        longest = int(self._filled_S[moving].max())
        values = self.values_L_2_P_T_K_D
        values[:, :, vacant, :longest] = values[:, :, old_S[moving], :longest]
        self.places_S[:-1] = new_S


class SlotLayout:
    """Cached slots on a CPU: one row for each slot that samples, then runs of prompt tokens.

    Slots are read in place, idle ones among them too, while most of them are busy; then one by one:
    to gather the busy ones would copy the cache, which costs as much as attending to it.
    """

    def __init__(
        self,
        cache: SlotCache,
        slots_N: np.ndarray,
        positions_N: np.ndarray,
        num_single: int,
        runs: Sequence[tuple[int, int, int]],
    ) -> None:
        """The first `num_single` rows stand alone; `runs` are (slot, start, length)."""
        cache_L_2_P_K_T_D = cache.values_L_2_P_T_K_D.transpose(3, 4)
        _, _, num_places, key_heads, num_tokens, _ = cache_L_2_P_K_T_D.shape
        dtype = cache_L_2_P_K_T_D.dtype
        self._cache_L = cache_L_2_P_K_T_D.unbind()
        self._flat_L = cache_L_2_P_K_T_D.flatten(1, 4).unbind()
        # Where in a layer's flat cache the rows' keys and, behind them, values belong.
        places_N = cache.places_S[slots_N]
        heads_2_K = np.arange(2)[:, None] * (num_places * key_heads) + np.arange(key_heads)
        heads_N_2K = places_N[:, None] * key_heads + heads_2_K.ravel()
        self._targets_N_2K = torch.from_numpy(heads_N_2K * num_tokens + positions_N[:, None])
        self._runs = [
            (int(cache.places_S[slot]), start, length, _run_mask(start, length, dtype))
            for slot, start, length in runs
        ]
        self._num_single = num_single
        self._apart: list[tuple[int, int]] = []
        """Place and length of slots that are read one by one."""
        if not num_single:
            return
        places_B, lengths_B = places_N[:num_single], positions_N[:num_single] + 1
        self._places_B = torch.from_numpy(places_B)
        self._height = int(places_B.max()) + 1
        if 2 * num_single < self._height:
            self._apart = list(zip(places_B.tolist(), lengths_B.tolist(), strict=True))
            return
        lengths_P = np.ones(self._height, np.int64)
        lengths_P[places_B] = lengths_B
        self._blocks = []
        """Of each block all layers' keys and values, and what its places see of them."""
        for start in range(0, self._height, BLOCK):
            lengths = lengths_P[start : start + BLOCK]
            seen = cache_L_2_P_K_T_D[:, :, start : start + len(lengths), :, : int(lengths.max())]
            mask = _length_mask(lengths.repeat(key_heads), dtype)
            self._blocks.append((seen.flatten(2, 3).unsqueeze(3).unbind(), mask))

    def attend(self, layer: int, q_N_H_D: Tensor, k_N_K_D: Tensor, v_N_K_D: Tensor) -> Tensor:
        """Write the rows' keys and values, then attend slot by slot."""
        self._flat_L[layer].index_put_((self._targets_N_2K,), torch.cat((k_N_K_D, v_N_K_D), 1))
        if not self._runs:
            return self._attend_single(layer, q_N_H_D)
        parts = []
        if self._num_single:
            parts.append(self._attend_single(layer, q_N_H_D[: self._num_single]))
        row = self._num_single
        for place, start, length, mask in self._runs:
            keys, values = self._cache_L[layer][:, place, :, : start + length].transpose(1, 2)
            parts.append(_attend_causally(q_N_H_D[row : row + length], keys, values, mask))
            row += length
        return torch.cat(parts)

    def _attend_single(self, layer: int, q_B_H_D: Tensor) -> Tensor:
        if self._apart:
            cache_2_P_K_T_D = self._cache_L[layer]
            return torch.cat(
                [
                    _attend_last(q, cache_2_P_K_T_D[:, place, :, None, :length])
                    for q, (place, length) in zip(q_B_H_D.split(1), self._apart, strict=True)
                ]
            )
        q_P_H_D = q_B_H_D.new_zeros(self._height, *q_B_H_D.shape[1:])
        q_P_H_D.index_copy_(0, self._places_B, q_B_H_D)
        parts = [
            _attend_last(q, seen_L[layer], mask)
            for q, (seen_L, mask) in zip(q_P_H_D.split(BLOCK), self._blocks, strict=True)
        ]
        return torch.cat(parts).index_select(0, self._places_B)


def _attend_last(q_P_H_D: Tensor, seen_2_PK_1_T_D: Tensor, mask: Tensor | None = None) -> Tensor:
    """The last token of each place attends to what is cached there.

    Every key head is a batch of its own, whose keys are read in place by the queries of its group.
    """
    num_batches, head_dim = seen_2_PK_1_T_D.shape[1], q_P_H_D.shape[-1]
    if _AT_ONCE:
        keys, values = seen_2_PK_1_T_D
        q = q_P_H_D.reshape(num_batches, 1, -1, head_dim)
    else:
        q = q_P_H_D.reshape(num_batches, -1, 1, head_dim)
        keys, values = seen_2_PK_1_T_D.expand(-1, -1, q.shape[1], -1, -1)
    return scaled_dot_product_attention(q, keys, values, attn_mask=mask).reshape(q_P_H_D.shape)


def _attend_causally(
    q_N_H_D: Tensor, k_N_K_D: Tensor, v_N_K_D: Tensor, mask: Tensor | None
) -> Tensor:
    """The last tokens of a sequence attend to all of it; without a mask they are all of it."""
    out = scaled_dot_product_attention(
        q_N_H_D.transpose(0, 1).unsqueeze(0),
        k_N_K_D.transpose(0, 1).unsqueeze(0),
        v_N_K_D.transpose(0, 1).unsqueeze(0),
        attn_mask=mask,
        is_causal=mask is None,
        enable_gqa=q_N_H_D.shape[1] != k_N_K_D.shape[1],
    )
    return out[0].transpose(0, 1)


def _length_mask(lengths_B: np.ndarray, dtype: torch.dtype) -> Tensor:
    """What rows see of as many tokens as the longest has, [B, 1, 1, T], to be added to scores."""
    width = int(lengths_B.max())
    edge = torch.zeros(2 * width, dtype=dtype)
    edge[width:] = float("-inf")
    # Every row is a window over the same edge.
    return edge.unfold(0, width, 1)[torch.from_numpy(width - lengths_B)][:, None, None]


def _run_mask(start: int, length: int, dtype: torch.dtype) -> Tensor | None:
    """What the tokens of a run see of their slot; a run from the start needs no mask."""
    if start == 0:
        return None
    return torch.full((length, start + length), float("-inf"), dtype=dtype).triu_(start + 1)
