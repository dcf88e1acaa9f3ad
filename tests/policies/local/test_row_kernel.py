"""The GPU kernels against plain loops.

They need Triton, and a GPU or its interpreter: TRITON_INTERPRET=1 python -m pytest FILE
"""

from __future__ import annotations

import os

import pytest
import torch
from policies.local.test_cuda_stepper import (
    TILE,
    add_and_norm,
    attend_rows,
    attend_tiles,
    gate,
    rotate_and_keep,
)

IS_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if IS_INTERPRETED else "cuda"
# The interpreter cuts to bfloat16 where a GPU rounds.
CLOSE = {"atol": 5e-2, "rtol": 2e-2} if IS_INTERPRETED else {"atol": 1e-5, "rtol": 1e-2}
needs_gpu = pytest.mark.skipif(
    not (IS_INTERPRETED or torch.cuda.is_available()), reason="needs a CUDA GPU"
)


@needs_gpu
@pytest.mark.parametrize(("heads", "key_heads", "head_dim"), [(9, 3, 64), (16, 8, 128), (4, 2, 32)])
def test_kernels_equal_plain_loops(heads: int, key_heads: int, head_dim: int) -> None:
    from practicum.policies.local import row_kernel

    torch.manual_seed(0)
    device = torch.device(DEVICE)
    # The interpreter cannot multiply matrices of bfloat16.
    dtype = torch.float32 if IS_INTERPRETED else torch.bfloat16
    keys, values = torch.randn(2, 6, 1200, key_heads, head_dim, device=device, dtype=dtype)
    slots = torch.tensor([0, 3, 5], device=device)
    starts = torch.tensor([0, 130, 64], device=device)
    lengths = torch.tensor([16, 7, 1], device=device)
    q = torch.randn(3 * TILE, heads, head_dim, device=device, dtype=dtype)
    got = row_kernel.attend_tiles(q, keys, values, slots, starts, lengths)
    want = attend_tiles(q.float(), keys.float(), values.float(), slots, starts, lengths)
    for m, length in enumerate(lengths.tolist()):
        rows = slice(m * TILE, m * TILE + length)
        torch.testing.assert_close(got[rows].float(), want[rows], atol=2e-2, rtol=2e-2)
    slots = torch.tensor([0, 3, 5, 5, 1], device=device)
    last = torch.tensor([0, 130, 511, 512, 1199], device=device)
    got = row_kernel.attend_rows(q[:5], keys, values, slots, last)
    want = attend_rows(q[:5].float(), keys.float(), values.float(), slots, last)
    torch.testing.assert_close(got.float(), want, atol=2e-2, rtol=2e-2)


@needs_gpu
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("width", [576, 64])
def test_norms_and_gates_round_where_transformers_does(width: int, dtype: torch.dtype) -> None:
    from practicum.policies.local import decoder_kernels

    torch.manual_seed(0)
    x, delta = torch.randn(2, 5, width, device=DEVICE, dtype=dtype)
    weight = torch.rand(width, device=DEVICE, dtype=dtype)
    for part in (delta, None):
        got = decoder_kernels.add_and_norm(x, part, weight, 1e-5)
        want = add_and_norm(x, part, weight, 1e-5)
        for ours, plain in zip(got, want, strict=True):
            torch.testing.assert_close(ours, plain, **CLOSE)
    wide = torch.randn(5, 6 * width, device=DEVICE, dtype=dtype)
    torch.testing.assert_close(decoder_kernels.gate(wide), gate(wide), **CLOSE)


@needs_gpu
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("has_norms", [True, False])
def test_keys_and_values_go_where_they_belong(has_norms: bool, dtype: torch.dtype) -> None:
    from practicum.policies.local import decoder_kernels

    torch.manual_seed(0)
    heads, key_heads, size = 9, 3, 64
    joint = torch.randn(4, heads + 2 * key_heads, size, device=DEVICE, dtype=dtype)
    angles = torch.rand(50, size, device=DEVICE) * 6
    rotations = torch.stack((angles.cos(), angles.sin()), 1).to(dtype)
    norms = torch.rand(2, size, device=DEVICE, dtype=dtype) if has_norms else None
    slots = torch.tensor([0, 5, 2, 2], device=DEVICE)
    positions = torch.tensor([0, 49, 7, 8], device=DEVICE)
    caches = [torch.zeros(2, 6, 50, key_heads, size, device=DEVICE, dtype=dtype) for _ in range(2)]
    results = [
        rotate(joint, rotations, norms, 1e-5, slots, positions, *cache)
        for rotate, cache in zip(
            (decoder_kernels.rotate_and_keep, rotate_and_keep), caches, strict=True
        )
    ]
    torch.testing.assert_close(*results, **CLOSE)
    torch.testing.assert_close(*caches, **CLOSE)
