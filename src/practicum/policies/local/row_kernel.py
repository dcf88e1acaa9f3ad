"""The attention kernels of the sampler on a GPU: cached slots, read once for many queries.

Library kernels for one query per sequence read every key once per query head or want a mask
over the whole cache. These read the keys of a slot once for all query heads that share them,
and only as far as they are needed: `attend_rows` for single tokens, `attend_tiles` for runs of
prompt tokens, sixteen of a slot at a time.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

TILE = 16
"""Consecutive tokens of one slot that share a pass over its keys."""
_BLOCK = 64


@triton.jit  # type: ignore[untyped-decorator]
def _attend_tiles(  # type: ignore[no-untyped-def]
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    slots_ptr,
    starts_ptr,
    lengths_ptr,
    scale,
    q_row,
    q_head,
    kv_slot,
    kv_token,
    kv_head,
    out_row,
    out_head,
    ROWS: tl.constexpr,
    GROUP: tl.constexpr,
    PADDED: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK: tl.constexpr,
):
    tile = tl.program_id(0)
    head = tl.program_id(1)
    slot = tl.load(slots_ptr + tile).to(tl.int64)
    first = tl.load(starts_ptr + tile).to(tl.int32)
    length = tl.load(lengths_ptr + tile).to(tl.int32)
    m = tl.arange(0, PADDED)
    d = tl.arange(0, HEAD_DIM)
    t = tl.arange(0, BLOCK)
    row = m // GROUP
    is_there = row < length
    rows = (tile * ROWS + row).to(tl.int64)
    heads = head * GROUP + m % GROUP
    q = tl.load(
        q_ptr + rows[:, None] * q_row + heads[:, None] * q_head + d[None, :],
        mask=is_there[:, None],
        other=0.0,
    )
    highest = tl.full([PADDED], -1e30, tl.float32)
    total = tl.zeros([PADDED], tl.float32)
    acc = tl.zeros([PADDED, HEAD_DIM], tl.float32)
    base = slot * kv_slot + head * kv_head
    last = first + row
    for start in range(0, first + length, BLOCK):
        key = start + t
        offsets = base + key.to(tl.int64) * kv_token
        in_slot = key < first + length
        k = tl.load(k_ptr + offsets[None, :] + d[:, None], mask=in_slot[None, :], other=0.0)
        v = tl.load(v_ptr + offsets[:, None] + d[None, :], mask=in_slot[:, None], other=0.0)
        scores = (tl.dot(q, k) * scale).to(tl.float32)
        scores = tl.where(key[None, :] <= last[:, None], scores, -1e30)
        now = tl.maximum(highest, tl.max(scores, 1))
        weights = tl.exp(scores - now[:, None])
        fade = tl.exp(highest - now)
        total = total * fade + tl.sum(weights, 1)
        acc = acc * fade[:, None] + tl.dot(weights.to(v.dtype), v)
        highest = now
    tl.store(
        out_ptr + rows[:, None] * out_row + heads[:, None] * out_head + d[None, :],
        (acc / tl.maximum(total, 1e-30)[:, None]).to(out_ptr.dtype.element_ty),
        mask=is_there[:, None],
    )


def attend_rows(
    q_N_H_D: Tensor, keys_S_T_K_D: Tensor, values_S_T_K_D: Tensor, slots_N: Tensor, last_N: Tensor
) -> Tensor:
    """Row n attends to tokens 0..last_N[n] of slot slots_N[n]."""
    ones_N = torch.ones_like(slots_N)
    return _launch(q_N_H_D, keys_S_T_K_D, values_S_T_K_D, slots_N, last_N, ones_N, rows=1)


def attend_tiles(
    q_N_H_D: Tensor,
    keys_S_T_K_D: Tensor,
    values_S_T_K_D: Tensor,
    slots_M: Tensor,
    starts_M: Tensor,
    lengths_M: Tensor,
) -> Tensor:
    """Rows come in tiles of 16: tile m holds positions starts_M[m] on of slot slots_M[m].

    Of a tile the first lengths_M[m] rows are computed; the output of the others is undefined.
    """
    return _launch(q_N_H_D, keys_S_T_K_D, values_S_T_K_D, slots_M, starts_M, lengths_M, rows=TILE)


def _launch(q: Tensor, keys: Tensor, values: Tensor, *tiles: Tensor, rows: int) -> Tensor:
    num_rows, num_heads, head_dim = q.shape
    key_heads = keys.shape[2]
    group = num_heads // key_heads
    out = torch.empty((num_rows, num_heads, head_dim), dtype=q.dtype, device=q.device)
    kernel: Any = _attend_tiles
    kernel[(num_rows // rows, key_heads)](
        q,
        keys,
        values,
        out,
        *tiles,
        head_dim**-0.5,
        q.stride(0),
        q.stride(1),
        keys.stride(0),
        keys.stride(1),
        keys.stride(2),
        out.stride(0),
        out.stride(1),
        ROWS=rows,
        GROUP=group,
        PADDED=max(16, triton.next_power_of_2(rows * group)),
        HEAD_DIM=head_dim,
        BLOCK=_BLOCK,
        num_warps=2 if rows == 1 else 4,
    )
    return out
