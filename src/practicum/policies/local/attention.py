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
        slots_N: Tensor,
        positions_N: Tensor,
        num_single: int,
        runs: Sequence[tuple[int, int, int]],
    ) -> None:
        """The first `num_single` rows stand alone; `runs` are (slot, start, length)."""
        self._cache = cache.values_L_2_S_T_K_D
        self._slots_N = slots_N
        self._positions_N = positions_N
        self._num_single = num_single
        dtype = self._cache.dtype
        self._runs = [(*run, _run_mask(*run[1:], dtype)) for run in runs]
        if num_single:
            single = slots_N[:num_single]
            height = int(single.max()) + 1
            self._is_gathered = 2 * num_single < height
            # Where in the batch of attended slots each single row stands.
            self._places = torch.arange(num_single) if self._is_gathered else single
            self._height = num_single if self._is_gathered else height
            lengths_S = torch.ones(self._height, dtype=torch.long)
            lengths_S[self._places] = positions_N[:num_single] + 1
            self._width = int(lengths_S.max())
            seen_S_T = torch.arange(self._width)[None] < lengths_S[:, None]
            # As an additive mask: the boolean one is turned into this in every layer.
            self._mask = torch.zeros(seen_S_T.shape, dtype=self._cache.dtype).masked_fill_(
                ~seen_S_T, float("-inf")
            )[:, None, None]
            self._is_in_place = self._height == num_single and not self._is_gathered

    def attend(self, layer: int, q_N_H_D: Tensor, k_N_K_D: Tensor, v_N_K_D: Tensor) -> Tensor:
        """Write the rows' keys and values, then attend slot by slot."""
        keys, values = self._cache[layer]
        keys[self._slots_N, self._positions_N] = k_N_K_D
        values[self._slots_N, self._positions_N] = v_N_K_D
        parts = []
        if self._num_single:
            parts.append(self._attend_single(q_N_H_D[: self._num_single], keys, values))
        row = self._num_single
        for slot, start, length, mask in self._runs:
            end = start + length
            queries = q_N_H_D[row : row + length]
            parts.append(_attend_causally(queries, keys[slot, :end], values[slot, :end], mask))
            row += length
        return torch.cat(parts)

    def _attend_single(self, q_B_H_D: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        num_heads, head_dim = q_B_H_D.shape[1:]
        key_heads = keys.shape[2]
        # Query heads that share a key head are its rows: no key is repeated.
        q_S_K_G_D = q_B_H_D.unflatten(1, (key_heads, -1))
        if not self._is_in_place:
            q_B_K_G_D = q_S_K_G_D
            q_S_K_G_D = q_B_H_D.new_zeros(self._height, key_heads, num_heads // key_heads, head_dim)
            q_S_K_G_D[self._places] = q_B_K_G_D
        slots = self._slots_N[: self._num_single] if self._is_gathered else slice(self._height)
        out = scaled_dot_product_attention(
            q_S_K_G_D,
            keys[:, : self._width][slots].transpose(1, 2),
            values[:, : self._width][slots].transpose(1, 2),
            attn_mask=self._mask,
        )
        return (out if self._is_in_place else out[self._places]).flatten(1, 2)


def _run_mask(start: int, length: int, dtype: torch.dtype) -> Tensor | None:
    """What the tokens of a run see of their slot; a run from the start needs no mask."""
    if start == 0:
        return None
    return torch.full((length, start + length), float("-inf"), dtype=dtype).triu_(start + 1)
