"""Attention over segments with parents equals attention over the sequences they stand for."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from practicum.policies.local import segments
from practicum.policies.local.segments import attend_segments, segment_spans

HEADS, KEY_HEADS, HEAD_DIM = 4, 2, 8


def expected(
    q: Tensor, k: Tensor, v: Tensor, lengths: list[int], parents: list[int | None]
) -> Tensor:
    """By the fused attention of PyTorch with a mask over everything."""
    owner = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    order = torch.arange(sum(lengths))
    above = torch.tensor([-1 if parent is None else parent for parent in parents])[owner]
    is_own = (owner[:, None] == owner[None]) & (order[:, None] >= order[None])
    mask = is_own | (above[:, None] == owner[None])
    out = scaled_dot_product_attention(
        q.transpose(0, 1)[None],
        k.transpose(0, 1)[None],
        v.transpose(0, 1)[None],
        attn_mask=mask,
        enable_gqa=True,
    )
    return out[0].transpose(0, 1)


@st.composite
def forests(draw: st.DrawFn) -> tuple[list[int], list[int | None]]:
    """Roots, some with segments that continue them."""
    lengths: list[int] = []
    parents: list[int | None] = []
    for _ in range(draw(st.integers(1, 3))):
        root = len(lengths)
        lengths.append(draw(st.integers(1, 300)))
        parents.append(None)
        for _ in range(draw(st.integers(0, 3))):
            lengths.append(draw(st.integers(1, 200)))
            parents.append(root)
    return lengths, parents


@settings(max_examples=25, deadline=None)
@given(forests(), st.integers(0, 1000), st.sampled_from([0, 1, 16]))
def test_values_and_gradients_are_exact(
    forest: tuple[list[int], list[int | None]], seed: int, kept: int
) -> None:
    lengths, parents = forest
    generator = torch.Generator().manual_seed(seed)
    total = sum(lengths)
    q = torch.randn(total, HEADS, HEAD_DIM, generator=generator, requires_grad=True)
    k = torch.randn(total, KEY_HEADS, HEAD_DIM, generator=generator, requires_grad=True)
    v = torch.randn(total, KEY_HEADS, HEAD_DIM, generator=generator, requires_grad=True)
    grad = torch.randn(total, HEADS, HEAD_DIM, generator=generator)
    before = segments.KEPT_PER_DIM
    segments.KEPT_PER_DIM = kept
    try:
        ours = attend_segments(q, k, v, segment_spans(lengths, parents))
        ours_grads = torch.autograd.grad(ours, (q, k, v), grad)
    finally:
        segments.KEPT_PER_DIM = before
    theirs = expected(q, k, v, lengths, parents)
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    for got, wanted in zip(ours_grads, torch.autograd.grad(theirs, (q, k, v), grad), strict=True):
        torch.testing.assert_close(got, wanted, atol=2e-5, rtol=1e-4)
