"""The attention kernels of the sampler on a GPU: cached slots, read once for many queries.

Library kernels for one query per sequence read every key once per query head or want a mask
over the whole cache. These read the keys of a slot once for all query heads that share them,
and only as far as they are needed: `attend_rows` for single tokens, `attend_tiles` for runs of
prompt tokens, sixteen of a slot at a time. A step waits for its longest slot: the keys of a
single token's slot are read in parts, side by side.
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
_PART = 512
"""Keys of a slot that are read one after the other."""


@triton.jit  # type: ignore[untyped-decorator]
def _read_keys(  # type: ignore[no-untyped-def]
    q,
    k_ptr,
    v_ptr,
    base,
    kv_token,
    last,
    begin,
    end,
    scale,
    PADDED: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Keys from `begin` to `end`, each query up to its `last`: sums, their weight and its scale."""
    d = tl.arange(0, HEAD_DIM)
    t = tl.arange(0, BLOCK)
    highest = tl.full([PADDED], -1e30, tl.float32)
    total = tl.zeros([PADDED], tl.float32)
    acc = tl.zeros([PADDED, HEAD_DIM], tl.float32)
    for start in range(begin, end, BLOCK):
        key = start + t
        offsets = base + key.to(tl.int64) * kv_token
        in_slot = key < end
        k = tl.load(k_ptr + offsets[None, :] + d[:, None], mask=in_slot[None, :], other=0.0)
        v = tl.load(v_ptr + offsets[:, None] + d[None, :], mask=in_slot[:, None], other=0.0)
        scores = (tl.dot(q, k) * scale).to(tl.float32)
        scores = tl.where(in_slot[None, :] & (key[None, :] <= last[:, None]), scores, -1e30)
        now = tl.maximum(highest, tl.max(scores, 1))
        weights = tl.exp(scores - now[:, None])
        fade = tl.exp(highest - now)
        total = total * fade + tl.sum(weights, 1)
        acc = acc * fade[:, None] + tl.dot(weights.to(v.dtype), v)
        highest = now
    return acc, total, highest


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
    row = m // GROUP
    is_there = row < length
    rows = (tile * ROWS + row).to(tl.int64)
    heads = head * GROUP + m % GROUP
    q = tl.load(
        q_ptr + rows[:, None] * q_row + heads[:, None] * q_head + d[None, :],
        mask=is_there[:, None],
        other=0.0,
    )
    acc, total, _ = _read_keys(
        q,
        k_ptr,
        v_ptr,
        slot * kv_slot + head * kv_head,
        kv_token,
        first + row,
        0,
        first + length,
        scale,
        PADDED,
        HEAD_DIM,
        BLOCK,
    )
    tl.store(
        out_ptr + rows[:, None] * out_row + heads[:, None] * out_head + d[None, :],
        (acc / tl.maximum(total, 1e-30)[:, None]).to(out_ptr.dtype.element_ty),
        mask=is_there[:, None],
    )


@triton.jit  # type: ignore[untyped-decorator]
def _attend_part(  # type: ignore[no-untyped-def]
    q_ptr,
    k_ptr,
    v_ptr,
    acc_ptr,
    highest_ptr,
    total_ptr,
    slots_ptr,
    last_ptr,
    scale,
    q_row,
    q_head,
    kv_slot,
    kv_token,
    kv_head,
    num_heads,
    num_parts,
    GROUP: tl.constexpr,
    PADDED: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK: tl.constexpr,
    PART: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    part = tl.program_id(2)
    last = tl.load(last_ptr + row).to(tl.int32)
    if part * PART <= last:
        slot = tl.load(slots_ptr + row).to(tl.int64)
        m = tl.arange(0, PADDED)
        d = tl.arange(0, HEAD_DIM)
        is_there = m < GROUP
        heads = head * GROUP + m
        q = tl.load(
            q_ptr + row * q_row + heads[:, None] * q_head + d[None, :],
            mask=is_there[:, None],
            other=0.0,
        )
        acc, total, highest = _read_keys(
            q,
            k_ptr,
            v_ptr,
            slot * kv_slot + head * kv_head,
            kv_token,
            last + 0 * m,
            part * PART,
            tl.minimum(part * PART + PART, last + 1),
            scale,
            PADDED,
            HEAD_DIM,
            BLOCK,
        )
        at = (row * num_heads + heads) * num_parts + part
        tl.store(highest_ptr + at, highest, mask=is_there)
        tl.store(total_ptr + at, total, mask=is_there)
        tl.store(acc_ptr + at[:, None] * HEAD_DIM + d[None, :], acc, mask=is_there[:, None])


@triton.jit  # type: ignore[untyped-decorator]
def _join_parts(  # type: ignore[no-untyped-def]
    acc_ptr,
    highest_ptr,
    total_ptr,
    last_ptr,
    out_ptr,
    num_heads,
    num_parts,
    HEAD_DIM: tl.constexpr,
    PADDED: tl.constexpr,
    PART: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    parts = tl.arange(0, PADDED)
    d = tl.arange(0, HEAD_DIM)
    is_there = parts * PART <= tl.load(last_ptr + row).to(tl.int32)
    at = (row * num_heads + head) * num_parts + parts
    highest = tl.load(highest_ptr + at, mask=is_there, other=-1e30)
    total = tl.load(total_ptr + at, mask=is_there, other=0.0)
    acc = tl.load(acc_ptr + at[:, None] * HEAD_DIM + d[None, :], mask=is_there[:, None], other=0.0)
    weights = tl.exp(highest - tl.max(highest, 0))
    out = tl.sum(acc * weights[:, None], 0) / tl.sum(total * weights, 0)
    target = out_ptr + (row * num_heads + head) * HEAD_DIM + d
    tl.store(target, out.to(out_ptr.dtype.element_ty))


def attend_rows(
    q_N_H_D: Tensor, keys_S_T_K_D: Tensor, values_S_T_K_D: Tensor, slots_N: Tensor, last_N: Tensor
) -> Tensor:
    """Row n attends to tokens 0..last_N[n] of slot slots_N[n]."""
    num_rows, num_heads, head_dim = q_N_H_D.shape
    num_tokens, key_heads = keys_S_T_K_D.shape[1:3]
    num_parts = -(-num_tokens // _PART)
    group = num_heads // key_heads
    shape = (num_rows, num_heads, num_parts)
    acc = torch.empty((*shape, head_dim), dtype=torch.float32, device=q_N_H_D.device)
    highest, total = torch.empty((2, *shape), dtype=torch.float32, device=q_N_H_D.device)
    out = torch.empty((num_rows, num_heads, head_dim), dtype=q_N_H_D.dtype, device=q_N_H_D.device)
    kernel: Any = _attend_part
    kernel[(num_rows, key_heads, num_parts)](
        q_N_H_D,
        keys_S_T_K_D,
        values_S_T_K_D,
        acc,
        highest,
        total,
        slots_N,
        last_N,
        head_dim**-0.5,
        q_N_H_D.stride(0),
        q_N_H_D.stride(1),
        keys_S_T_K_D.stride(0),
        keys_S_T_K_D.stride(1),
        keys_S_T_K_D.stride(2),
        num_heads,
        num_parts,
        GROUP=group,
        PADDED=max(16, triton.next_power_of_2(group)),
        HEAD_DIM=head_dim,
        BLOCK=_BLOCK,
        PART=_PART,
        num_warps=2,
    )
    kernel = _join_parts
    kernel[(num_rows, num_heads)](
        acc,
        highest,
        total,
        last_N,
        out,
        num_heads,
        num_parts,
        HEAD_DIM=head_dim,
        PADDED=triton.next_power_of_2(num_parts),
        PART=_PART,
        num_warps=1,
    )
    return out


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
    num_rows, num_heads, head_dim = q_N_H_D.shape
    keys, values = keys_S_T_K_D, values_S_T_K_D
    group = num_heads // keys.shape[2]
    out = torch.empty((num_rows, num_heads, head_dim), dtype=q_N_H_D.dtype, device=q_N_H_D.device)
    kernel: Any = _attend_tiles
    kernel[(num_rows // TILE, keys.shape[2])](
        q_N_H_D,
        keys,
        values,
        out,
        slots_M,
        starts_M,
        lengths_M,
        head_dim**-0.5,
        q_N_H_D.stride(0),
        q_N_H_D.stride(1),
        keys.stride(0),
        keys.stride(1),
        keys.stride(2),
        out.stride(0),
        out.stride(1),
        ROWS=TILE,
        GROUP=group,
        PADDED=triton.next_power_of_2(TILE * group),
        HEAD_DIM=head_dim,
        BLOCK=_BLOCK,
        num_warps=4,
    )
    return out
