"""The decoder of the llama family in few kernels, for sampling on a GPU.

A step of a small model takes as long as its kernels are many, not as they are large: transformers
has about 45 in a layer. This has nine: projections that read the same input are one product, and
what lies between products is one kernel each (`decoder_kernels`).
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn.functional import linear

from practicum.policies.local.decoder_kernels import add_and_norm, gate
from practicum.policies.local.lean import MAX_PARAMETERS, is_plain_decoder


class JointLayout(Protocol):
    """Where rows lie in the cache."""

    def attend_joint(
        self,
        layer: int,
        joint_N_J_D: Tensor,
        rotations_T_2_D: Tensor,
        norms_2_D: Tensor | None,
        eps: float,
    ) -> Tensor:
        """The attention output [N, H, D] of rows whose queries, keys and values come together."""
        ...


class FusedDecoder:
    """Hidden states of one network; `renew` after its weights have changed."""

    def __init__(self, network: Any, num_positions: int) -> None:
        config = network.config
        self._decoder = network.model
        self._eps = config.rms_norm_eps
        self._num_joint = config.num_attention_heads + 2 * config.num_key_value_heads
        self._qkv = [_join_qkv(layer) for layer in self._decoder.layers]
        self._qkv_bias = [_join_bias(layer) for layer in self._decoder.layers]
        self._gate_up = [_join_mlp(layer) for layer in self._decoder.layers]
        self._head_norms = [_join_head_norms(layer) for layer in self._decoder.layers]
        parameter = self._qkv[0]
        positions = torch.arange(num_positions, device=parameter.device)
        cos, sin = self._decoder.rotary_emb(parameter.new_empty(0), positions[None])
        self._rotations_T_2_D = torch.stack((cos[0], sin[0]), 1).contiguous()

    @classmethod
    def of(cls, network: Any, num_positions: int) -> FusedDecoder | None:
        """The network's twin, if it can have one."""
        if not is_plain_decoder(network):
            return None
        rotary = network.model.rotary_emb
        head_dim = network.model.layers[0].self_attn.head_dim
        is_fit = (
            rotary.rope_type not in ("dynamic", "longrope")
            and head_dim & (head_dim - 1) == 0
            and sum(parameter.numel() for parameter in network.parameters()) <= MAX_PARAMETERS
        )
        return cls(network, num_positions) if is_fit else None

    @torch.no_grad()
    def renew(self) -> None:
        """Copy the weights again, to where graphs that were captured read them."""
        for index, layer in enumerate(self._decoder.layers):
            pairs = (
                (self._qkv[index], _join_qkv(layer)),
                (self._qkv_bias[index], _join_bias(layer)),
                (self._gate_up[index], _join_mlp(layer)),
                (self._head_norms[index], _join_head_norms(layer)),
            )
            for kept, new in pairs:
                if kept is not None and new is not None:
                    kept.copy_(new)

    def hidden(self, ids_N: Tensor, layout: JointLayout, rows_B: Tensor) -> Tensor:
        """The last layer's output for B of N tokens; the layout knows where they stand."""
        x_N_W: Tensor = self._decoder.embed_tokens(ids_N)
        delta_N_W: Tensor | None = None
        for index, layer in enumerate(self._decoder.layers):
            x_N_W, normal = add_and_norm(x_N_W, delta_N_W, layer.input_layernorm.weight, self._eps)
            joint = linear(normal, self._qkv[index], self._qkv_bias[index])
            told = layout.attend_joint(
                index,
                joint.view(len(joint), self._num_joint, -1),
                self._rotations_T_2_D,
                self._head_norms[index],
                self._eps,
            )
            delta_N_W = linear(told.flatten(1), layer.self_attn.o_proj.weight)
            if index == len(self._decoder.layers) - 1:
                # Nobody attends to the last layer's output: what is not asked for ends here.
                x_N_W, delta_N_W = x_N_W[rows_B], delta_N_W[rows_B]
            x_N_W, normal = add_and_norm(
                x_N_W, delta_N_W, layer.post_attention_layernorm.weight, self._eps
            )
            delta_N_W = linear(
                gate(linear(normal, self._gate_up[index])), layer.mlp.down_proj.weight
            )
        _, normal = add_and_norm(x_N_W, delta_N_W, self._decoder.norm.weight, self._eps)
        return normal


def _join_qkv(layer: Any) -> Tensor:
    attention = layer.self_attn
    inputs = (attention.q_proj, attention.k_proj, attention.v_proj)
    return torch.cat([product.weight.detach() for product in inputs])


def _join_bias(layer: Any) -> Tensor | None:
    attention = layer.self_attn
    inputs = (attention.q_proj, attention.k_proj, attention.v_proj)
    if inputs[0].bias is None:
        return None
    return torch.cat([product.bias.detach() for product in inputs])


def _join_mlp(layer: Any) -> Tensor:
    return torch.cat((layer.mlp.gate_proj.weight.detach(), layer.mlp.up_proj.weight.detach()))


def _join_head_norms(layer: Any) -> Tensor | None:
    attention = layer.self_attn
    if not hasattr(attention, "q_norm"):
        return None
    return torch.stack((attention.q_norm.weight.detach(), attention.k_norm.weight.detach()))
