"""The GPU kernels against plain loops; needs a GPU and Triton."""

from __future__ import annotations

import pytest
import torch
from policies.local.test_cuda_stepper import TILE, attend_rows, attend_tiles

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")


@needs_gpu
@pytest.mark.parametrize(("heads", "key_heads", "head_dim"), [(9, 3, 64), (16, 8, 128), (4, 2, 32)])
def test_kernels_equal_plain_loops(heads: int, key_heads: int, head_dim: int) -> None:
    from practicum.policies.local import row_kernel

    torch.manual_seed(0)
    device = torch.device("cuda")
    keys, values = torch.randn(2, 6, 200, key_heads, head_dim, device=device, dtype=torch.bfloat16)
    slots = torch.tensor([0, 3, 5], device=device)
    starts = torch.tensor([0, 130, 64], device=device)
    lengths = torch.tensor([16, 7, 1], device=device)
    q = torch.randn(3 * TILE, heads, head_dim, device=device, dtype=torch.bfloat16)
    got = row_kernel.attend_tiles(q, keys, values, slots, starts, lengths)
    want = attend_tiles(q.float(), keys.float(), values.float(), slots, starts, lengths)
    for m, length in enumerate(lengths.tolist()):
        rows = slice(m * TILE, m * TILE + length)
        torch.testing.assert_close(got[rows].float(), want[rows], atol=2e-2, rtol=2e-2)
    got = row_kernel.attend_rows(q[:3], keys, values, slots, starts)
    want = attend_rows(q[:3].float(), keys.float(), values.float(), slots, starts)
    torch.testing.assert_close(got.float(), want, atol=2e-2, rtol=2e-2)
