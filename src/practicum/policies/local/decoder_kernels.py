"""What lies between the products of a decoder, on a GPU: one kernel where transformers has ten.

Numbers are rounded where transformers rounds them, so that a sampler made of these kernels and a
trainer made of its modules agree as closely as the products do.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit  # type: ignore[untyped-decorator]
def _add_and_norm(  # type: ignore[no-untyped-def]
    x_ptr,
    delta_ptr,
    weight_ptr,
    sum_ptr,
    normal_ptr,
    eps,
    WIDTH: tl.constexpr,
    PADDED: tl.constexpr,
    HAS_DELTA: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, PADDED)
    is_there = at < WIDTH
    kind = x_ptr.dtype.element_ty
    x = tl.load(x_ptr + row * WIDTH + at, mask=is_there, other=0.0).to(tl.float32)
    if HAS_DELTA:
        delta = tl.load(delta_ptr + row * WIDTH + at, mask=is_there, other=0.0)
        x = (x + delta.to(tl.float32)).to(kind).to(tl.float32)
        tl.store(sum_ptr + row * WIDTH + at, x.to(kind), mask=is_there)
    scale = tl.rsqrt(tl.sum(x * x, 0) / WIDTH + eps)
    normal = (x * scale).to(kind).to(tl.float32)
    weight = tl.load(weight_ptr + at, mask=is_there, other=0.0).to(tl.float32)
    tl.store(normal_ptr + row * WIDTH + at, (normal * weight).to(kind), mask=is_there)


def add_and_norm(
    x_N_W: Tensor, delta_N_W: Tensor | None, weight_W: Tensor, eps: float
) -> tuple[Tensor, Tensor]:
    """The sum of both, and the sum normalised."""
    num_rows, width = x_N_W.shape
    normal = torch.empty_like(x_N_W)
    total = x_N_W if delta_N_W is None else torch.empty_like(x_N_W)
    kernel: Any = _add_and_norm
    kernel[(num_rows,)](
        x_N_W,
        x_N_W if delta_N_W is None else delta_N_W,
        weight_W,
        total,
        normal,
        eps,
        WIDTH=width,
        PADDED=triton.next_power_of_2(width),
        HAS_DELTA=delta_N_W is not None,
        num_warps=4,
    )
    return total, normal


@triton.jit  # type: ignore[untyped-decorator]
def _rotate_and_keep(  # type: ignore[no-untyped-def]
    joint_ptr,
    rotations_ptr,
    norms_ptr,
    slots_ptr,
    positions_ptr,
    q_ptr,
    k_ptr,
    v_ptr,
    eps,
    kv_slot,
    kv_token,
    kv_head,
    HEADS: tl.constexpr,
    KEY_HEADS: tl.constexpr,
    HALF: tl.constexpr,
    HAS_NORM: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    kind = joint_ptr.dtype.element_ty
    size = 2 * HALF
    at = tl.arange(0, HALF)
    source = joint_ptr + (row * (HEADS + 2 * KEY_HEADS) + head) * size
    low = tl.load(source + at).to(tl.float32)
    high = tl.load(source + HALF + at).to(tl.float32)
    slot = tl.load(slots_ptr + row).to(tl.int64)
    position = tl.load(positions_ptr + row).to(tl.int64)
    place = slot * kv_slot + position * kv_token
    if head < HEADS + KEY_HEADS:
        if HAS_NORM:
            scale = tl.rsqrt((tl.sum(low * low, 0) + tl.sum(high * high, 0)) / size + eps)
            norm = norms_ptr + tl.where(head < HEADS, 0, size)
            low = (low * scale).to(kind).to(tl.float32) * tl.load(norm + at).to(tl.float32)
            high = (high * scale).to(kind).to(tl.float32) * tl.load(norm + HALF + at).to(tl.float32)
            low, high = low.to(kind).to(tl.float32), high.to(kind).to(tl.float32)
        rotation = rotations_ptr + position * 2 * size
        cos_low = tl.load(rotation + at).to(tl.float32)
        cos_high = tl.load(rotation + HALF + at).to(tl.float32)
        sin_low = tl.load(rotation + size + at).to(tl.float32)
        sin_high = tl.load(rotation + size + HALF + at).to(tl.float32)
        turned_low = (low * cos_low).to(kind).to(tl.float32) - (high * sin_low).to(kind).to(
            tl.float32
        )
        turned_high = (high * cos_high).to(kind).to(tl.float32) + (low * sin_high).to(kind).to(
            tl.float32
        )
        low, high = turned_low, turned_high
    if head < HEADS:
        target = q_ptr + (row * HEADS + head) * size
    elif head < HEADS + KEY_HEADS:
        target = k_ptr + place + (head - HEADS) * kv_head
    else:
        target = v_ptr + place + (head - HEADS - KEY_HEADS) * kv_head
    tl.store(target + at, low.to(kind))
    tl.store(target + HALF + at, high.to(kind))


def rotate_and_keep(
    joint_N_J_D: Tensor,
    rotations_T_2_D: Tensor,
    norms_2_D: Tensor | None,
    eps: float,
    slots_N: Tensor,
    positions_N: Tensor,
    keys_S_T_K_D: Tensor,
    values_S_T_K_D: Tensor,
) -> Tensor:
    """Queries, rotated; the keys, rotated, and the values go into the cache.

    `joint` holds the heads of queries, keys and values; the norms are those of query and key heads.
    """
    num_rows, num_joint, head_dim = joint_N_J_D.shape
    key_heads = keys_S_T_K_D.shape[2]
    heads = num_joint - 2 * key_heads
    q = torch.empty((num_rows, heads, head_dim), dtype=joint_N_J_D.dtype, device=joint_N_J_D.device)
    kernel: Any = _rotate_and_keep
    kernel[(num_rows, num_joint)](
        joint_N_J_D,
        rotations_T_2_D,
        rotations_T_2_D if norms_2_D is None else norms_2_D,
        slots_N,
        positions_N,
        q,
        keys_S_T_K_D,
        values_S_T_K_D,
        eps,
        keys_S_T_K_D.stride(0),
        keys_S_T_K_D.stride(1),
        keys_S_T_K_D.stride(2),
        HEADS=heads,
        KEY_HEADS=key_heads,
        HALF=head_dim // 2,
        HAS_NORM=norms_2_D is not None,
        num_warps=1,
    )
    return q


@triton.jit  # type: ignore[untyped-decorator]
def _gate(  # type: ignore[no-untyped-def]
    gate_up_ptr, out_ptr, width, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    is_there = at < width
    kind = gate_up_ptr.dtype.element_ty
    source = gate_up_ptr + row * 2 * width
    gate = tl.load(source + at, mask=is_there, other=0.0).to(tl.float32)
    up = tl.load(source + width + at, mask=is_there, other=0.0).to(tl.float32)
    opened = (gate / (1.0 + tl.exp(-gate))).to(kind).to(tl.float32)
    tl.store(out_ptr + row * width + at, (opened * up).to(kind), mask=is_there)


def gate(gate_up_N_2I: Tensor) -> Tensor:
    """The first half of each row through silu, times the second."""
    num_rows, double = gate_up_N_2I.shape
    width = double // 2
    out = torch.empty((num_rows, width), dtype=gate_up_N_2I.dtype, device=gate_up_N_2I.device)
    block = min(1024, triton.next_power_of_2(width))
    kernel: Any = _gate
    kernel[(num_rows, -(-width // block))](gate_up_N_2I, out, width, BLOCK=block, num_warps=4)
    return out
