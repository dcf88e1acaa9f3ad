"""Attention of a pack's sequences, shared beginnings among them, with its gradient.

A pack is segments laid end to end. A segment may have a parent: another segment, which all of
its tokens see whole, as if it stood before them. So the prompt of a group is computed once.
Written as products of matrices: on a CPU that is faster than the fused attention of PyTorch,
which attends to what is masked, and which cannot see two places of the keys at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

CHUNK = 128
"""Queries attended at once: fewer make small products, more compute what is masked."""
KEPT_PER_DIM = 16
"""Probabilities are kept for the gradient up to this context per dimension of a head: there
they take about the memory of a layer's other activations; beyond, they are computed again."""


class Span(NamedTuple):
    """Where a segment lies, and its parent; a parent of no length is none."""

    start: int
    end: int
    parent_start: int = 0
    parent_end: int = 0


class _Chunk(NamedTuple):
    """Queries from `start` to `end`, which see the first `num_seen` keys of their segment."""

    start: int
    end: int
    num_seen: int


def segment_spans(lengths: Sequence[int], parents: Sequence[int | None]) -> list[Span]:
    """Lay segments end to end; a parent is given by its place in the list."""
    spans: list[Span] = []
    end = 0
    for length, parent in zip(lengths, parents, strict=True):
        start, end = end, end + length
        above = (0, 0) if parent is None else (spans[parent].start, spans[parent].end)
        spans.append(Span(start, end, *above))
    return spans


def attend_segments(
    q_N_H_D: Tensor, k_N_K_D: Tensor, v_N_K_D: Tensor, spans: Sequence[Span]
) -> Tensor:
    """Each token attends to its segment up to itself and to the parent: [N, H, D]."""
    # Half precision would lose the digits that a fused attention keeps inside.
    out: Tensor = _SegmentAttention.apply(q_N_H_D.float(), k_N_K_D.float(), v_N_K_D.float(), spans)  # type: ignore[no-untyped-call]
    return out.to(q_N_H_D.dtype)


class _SegmentAttention(Function):
    @staticmethod
    def forward(ctx: Any, q_N_H_D: Tensor, k_N_K_D: Tensor, v_N_K_D: Tensor, spans: Any) -> Tensor:
        q, k, v = _by_key_head(q_N_H_D, k_N_K_D, v_N_K_D)
        out_N_H_D = torch.empty_like(q_N_H_D, memory_format=torch.contiguous_format)
        out = _split_heads(out_N_H_D, k.shape[0])
        hidden = _future_mask(q)
        kept: list[Tensor] = []
        is_trained = any(ctx.needs_input_grad)
        for span in spans:
            keys, values = _seen(k, span), _seen(v, span)
            for chunk in _chunks(span):
                p = _probabilities(q, keys, chunk, hidden)
                told = torch.bmm(p, values[:, : chunk.num_seen])
                out[:, :, chunk.start : chunk.end] = told.unflatten(1, (q.shape[1], -1))
                if is_trained and _is_kept(chunk, q):
                    kept.append(p)
        ctx.spans = spans
        ctx.save_for_backward(q_N_H_D, k_N_K_D, v_N_K_D, *kept)
        return out_N_H_D

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_N_H_D: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        q_N_H_D, k_N_K_D, v_N_K_D, *kept = ctx.saved_tensors
        kept_ones = iter(kept)
        q, k, v = _by_key_head(q_N_H_D, k_N_K_D, v_N_K_D)
        grad = _split_heads(grad_N_H_D, k.shape[0])
        grad_q_N_H_D = torch.empty_like(q_N_H_D, memory_format=torch.contiguous_format)
        grad_q = _split_heads(grad_q_N_H_D, k.shape[0])
        grad_k, grad_v = torch.zeros_like(k), torch.zeros_like(v)
        hidden = _future_mask(q)
        for span in ctx.spans:
            keys, values = _seen(k, span), _seen(v, span)
            grad_keys, grad_values = torch.zeros_like(keys), torch.zeros_like(values)
            for chunk in _chunks(span):
                p = (
                    next(kept_ones)
                    if _is_kept(chunk, q)
                    else _probabilities(q, keys, chunk, hidden)
                )
                rows, seen = slice(chunk.start, chunk.end), slice(chunk.num_seen)
                g = grad[:, :, rows].flatten(1, 2)
                grad_values[:, seen].baddbmm_(p.transpose(1, 2), g)
                grad_p = torch.bmm(g, values[:, seen].transpose(1, 2))
                grad_s = torch._softmax_backward_data(grad_p, p, -1, p.dtype)
                grad_keys[:, seen].baddbmm_(grad_s.transpose(1, 2), q[:, :, rows].flatten(1, 2))
                told = torch.bmm(grad_s, keys[:, seen])
                grad_q[:, :, rows] = told.unflatten(1, (q.shape[1], -1))
            num_above = span.parent_end - span.parent_start
            for total, part in ((grad_k, grad_keys), (grad_v, grad_values)):
                total[:, span.parent_start : span.parent_end] += part[:, :num_above]
                total[:, span.start : span.end] += part[:, num_above:]
        scale = q_N_H_D.shape[-1] ** -0.5
        return grad_q_N_H_D.mul_(scale), grad_k.transpose(0, 1), grad_v.transpose(0, 1), None


def _by_key_head(q_N_H_D: Tensor, k_N_K_D: Tensor, v_N_K_D: Tensor) -> tuple[Tensor, ...]:
    """Scaled queries [K, G, N, D], keys and values [K, N, D]: a product per key head."""
    k, v = k_N_K_D.transpose(0, 1).contiguous(), v_N_K_D.transpose(0, 1).contiguous()
    return _split_heads(q_N_H_D * q_N_H_D.shape[-1] ** -0.5, k.shape[0]).contiguous(), k, v


def _split_heads(x_N_H_D: Tensor, key_heads: int) -> Tensor:
    """The same memory as [K, G, N, D]."""
    x_N_K_G_D: Tensor = x_N_H_D.unflatten(1, (key_heads, -1))
    return x_N_K_G_D.permute(1, 2, 0, 3)


def _seen(x_K_N_D: Tensor, span: Span) -> Tensor:
    """What a segment sees: its parent, then itself."""
    own = x_K_N_D[:, span.start : span.end]
    if span.parent_end == span.parent_start:
        return own
    return torch.cat((x_K_N_D[:, span.parent_start : span.parent_end], own), 1)


def _chunks(span: Span) -> Iterator[_Chunk]:
    before = span.parent_end - span.parent_start - span.start
    for start in range(span.start, span.end, CHUNK):
        end = min(start + CHUNK, span.end)
        yield _Chunk(start, end, before + end)


def _is_kept(chunk: _Chunk, q_K_G_N_D: Tensor) -> bool:
    return chunk.num_seen <= KEPT_PER_DIM * q_K_G_N_D.shape[-1]


def _future_mask(like: Tensor) -> Tensor:
    """To be added to the scores of a chunk's queries for its own keys."""
    return like.new_full((CHUNK, CHUNK), float("-inf")).triu_(1)


def _probabilities(q_K_G_N_D: Tensor, keys_K_T_D: Tensor, chunk: _Chunk, hidden: Tensor) -> Tensor:
    """Of every key for every query of the chunk: [K, G x queries, keys]."""
    count = chunk.end - chunk.start
    queries = q_K_G_N_D[:, :, chunk.start : chunk.end].flatten(1, 2)
    scores = torch.bmm(queries, keys_K_T_D[:, : chunk.num_seen].transpose(1, 2))
    scores.unflatten(1, (-1, count))[..., -count:] += hidden[:count, :count]
    return scores.softmax(-1)
