"""How tokens attend to each other: packed sequences in training, cached slots in sampling.

transformers' models take an attention function by name. Ours does nothing but hand queries,
keys and values to the `layout` of the batch, which knows what belongs together, so that one
module serves training and sampling and works for every architecture of that library.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from practicum.policies.local.segments import attend_segments, segment_spans

ATTENTION_NAME = "practicum"


class Layout(Protocol):
    """Which tokens of a batch may see which."""

    def attend(self, layer: int, q_N_H_D: Tensor, k_N_K_D: Tensor, v_N_K_D: Tensor) -> Tensor:
        """The attention output [N, H, D] of N tokens with H query and K key heads."""
        ...


@cache
def register_attention() -> str:
    """Make the attention function known to transformers, once; return its name."""
    from transformers import AttentionInterface

    AttentionInterface.register(ATTENTION_NAME, _attention)
    return ATTENTION_NAME


def _attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    layout: Layout,
    scaling: float | None = None,
    **_: object,
) -> tuple[Tensor, None]:
    assert attention_mask is None and query.shape[0] == 1
    # Layouts scale by 1/sqrt(D); a model that scales otherwise is met in the queries.
    head_dim = query.shape[-1]
    if scaling is not None and abs(scaling * head_dim**0.5 - 1) > 1e-6:
        query = query * (scaling * head_dim**0.5)
    out = layout.attend(
        module.layer_idx,
        query[0].transpose(0, 1),
        key[0].transpose(0, 1),
        value[0].transpose(0, 1),
    )
    return out.unsqueeze(0), None


class PackedLayout:
    """Segments laid end to end; each token sees its own up to itself, and its parent's tokens."""

    def __init__(
        self,
        lengths: Sequence[int],
        device: torch.device,
        parents: Sequence[int | None] | None = None,
    ) -> None:
        """Without `parents`, every segment is a sequence of its own."""
        self._spans = segment_spans(lengths, parents or [None] * len(lengths))
        self._is_shared = any(parent is not None for parent in parents or ())
        self._longest = max(lengths)
        bounds = list(accumulate(lengths, initial=0))
        self._bounds = torch.tensor(bounds, dtype=torch.int32, device=device)

    def attend(self, layer: int, q_N_H_D: Tensor, k_N_K_D: Tensor, v_N_K_D: Tensor) -> Tensor:
        """Attend within each segment and to its parent."""
        del layer
        is_half = q_N_H_D.dtype in (torch.bfloat16, torch.float16)
        if q_N_H_D.is_cuda and is_half and not self._is_shared:
            from torch.nn.attention.varlen import varlen_attn

            groups = q_N_H_D.shape[1] // k_N_K_D.shape[1]
            out = varlen_attn(
                q_N_H_D,
                k_N_K_D.repeat_interleave(groups, 1),
                v_N_K_D.repeat_interleave(groups, 1),
                self._bounds,
                self._bounds,
                self._longest,
                self._longest,
                window_size=(-1, 0),
            )
            assert isinstance(out, Tensor)
            return out
        return attend_segments(q_N_H_D, k_N_K_D, v_N_K_D, self._spans)


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
        self.values_L_2_S_T_K_D = values.transpose(3, 4) if device.type == "cpu" else values

    def copy(self, source: int, target: int, num_tokens: int) -> None:
        """Give a slot the first tokens of another one."""
        values = self.values_L_2_S_T_K_D
        values[:, :, target, :num_tokens] = values[:, :, source, :num_tokens]


class SlotLayout:
    """Cached slots on a CPU: one row for each slot that samples, then runs of prompt tokens.

    Slots are read in place, idle ones among them too, while most of them are busy: to gather
    the busy ones copies the cache, which costs as much as attending to it.
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
        cache_L_2_S_K_T_D = cache.values_L_2_S_T_K_D.transpose(3, 4)
        _, _, num_slots, key_heads, num_tokens, _ = cache_L_2_S_K_T_D.shape
        dtype = cache_L_2_S_K_T_D.dtype
        self._cache_L = cache_L_2_S_K_T_D.unbind()
        self._flat_L = cache_L_2_S_K_T_D.flatten(1, 4).unbind()
        # Where in a layer's flat cache the rows' keys and, behind them, values belong.
        heads_2_K = np.arange(2)[:, None] * (num_slots * key_heads) + np.arange(key_heads)
        heads_N_2K = slots_N[:, None] * key_heads + heads_2_K.ravel()
        self._places_N_2K = torch.from_numpy(heads_N_2K * num_tokens + positions_N[:, None])
        self._runs = [(*run, _run_mask(*run[1:], dtype)) for run in runs]
        self._num_single = num_single
        self._gathered_B: Tensor | None = None
        self._scattered_B: Tensor | None = None
        if num_single:
            slots_B, lengths_S = slots_N[:num_single], positions_N[:num_single] + 1
            self._height, self._width = int(slots_B.max()) + 1, int(lengths_S.max())
            if 2 * num_single < self._height:
                self._gathered_B = torch.from_numpy(slots_B)
            elif num_single < self._height:
                self._scattered_B = torch.from_numpy(slots_B)
                lengths_B, lengths_S = lengths_S, np.ones(self._height, np.int64)
                lengths_S[slots_B] = lengths_B
            if self._gathered_B is None:
                seen = cache_L_2_S_K_T_D[:, :, : self._height, :, : self._width]
                self._seen_L = seen.flatten(2, 3).unsqueeze(3).unbind()
            self._mask = _length_mask(lengths_S.repeat(key_heads), dtype)

    def attend(self, layer: int, q_N_H_D: Tensor, k_N_K_D: Tensor, v_N_K_D: Tensor) -> Tensor:
        """Write the rows' keys and values, then attend slot by slot."""
        self._flat_L[layer].index_put_((self._places_N_2K,), torch.cat((k_N_K_D, v_N_K_D), 1))
        if not self._runs:
            return self._attend_single(layer, q_N_H_D)
        parts = []
        if self._num_single:
            parts.append(self._attend_single(layer, q_N_H_D[: self._num_single]))
        row = self._num_single
        for slot, start, length, mask in self._runs:
            keys, values = self._cache_L[layer][:, slot, :, : start + length].transpose(1, 2)
            parts.append(_attend_causally(q_N_H_D[row : row + length], keys, values, mask))
            row += length
        return torch.cat(parts)

    def _attend_single(self, layer: int, q_B_H_D: Tensor) -> Tensor:
        num_heads, head_dim = q_B_H_D.shape[1:]
        q_S_H_D = q_B_H_D
        if self._scattered_B is not None:
            q_S_H_D = q_B_H_D.new_zeros(self._height, num_heads, head_dim)
            q_S_H_D[self._scattered_B] = q_B_H_D
        if self._gathered_B is None:
            seen = self._seen_L[layer]
        else:
            seen = self._cache_L[layer][:, self._gathered_B, :, : self._width]
            seen = seen.flatten(1, 2).unsqueeze(2)
        # Every key head is a batch of its own, whose keys are read in place by each query of its
        # group. One query at a time: products of a matrix and a vector pack nothing.
        group = num_heads * len(q_S_H_D) // seen.shape[1]
        keys, values = seen.expand(-1, -1, group, -1, -1)
        q = q_S_H_D.reshape(-1, group, 1, head_dim)
        out = scaled_dot_product_attention(q, keys, values, attn_mask=self._mask)
        out_S_H_D = out.reshape(-1, num_heads, head_dim)
        return out_S_H_D if self._scattered_B is None else out_S_H_D[self._scattered_B]


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
