"""How tokens attend to each other: layouts, and that of packed sequences in training.

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
