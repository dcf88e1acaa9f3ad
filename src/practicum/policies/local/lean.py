"""The decoder of the llama family in few operations, for sampling and training on a CPU.

transformers' modules spend more time between products of matrices than in them while a batch
is small. This computes the same from the same parameters: projections that read the same
input are one product, a residual is added by the product that makes it, and without gradients
the weight of a norm is part of the product behind it. What is not known to be such a decoder,
is not float32, or carries adapters, is left to transformers.
"""

from __future__ import annotations

import platform
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn.functional import silu

from practicum.policies.local.attention import Layout

FAMILIES = ("LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")
MAX_PARAMETERS = 400_000_000
"""In larger networks the products take the time, and copies of the weights much memory."""


@dataclass(frozen=True)
class _Layer:
    """Parameters of a layer; products are [in, out]."""

    input_norm: Tensor | None
    """None, like the other norm before a product, where the product has it."""
    qkv: Tensor
    qkv_bias: Tensor | None
    head_norm: Tensor | None
    """[H + K, D], of queries and keys."""
    out: Tensor
    mlp_norm: Tensor | None
    gate_up: Tensor
    down: Tensor


class LeanDecoder:
    """Hidden states of one network.

    Made with gradients on, it is part of the graph: make it anew for every pass. Made with
    gradients off, it holds copies and is called without: make it anew when the weights change.
    """

    def __init__(self, network: Any) -> None:
        config = network.config
        self._heads = config.num_attention_heads
        self._key_heads = config.num_key_value_heads
        self._eps = config.rms_norm_eps
        self._decoder = network.model
        self._layers = [
            _join(layer, self._heads, self._key_heads) for layer in self._decoder.layers
        ]
        self._head = _for_product(network.lm_head.weight)
        self._norm = _for_norm(self._decoder.norm.weight)
        self._rotations = torch.empty(0)

    @classmethod
    def of(cls, network: Any) -> LeanDecoder | None:
        """The network's lean twin, if it can have one."""
        return cls(network) if _is_known(network) else None

    def hidden(
        self, ids_N: Tensor, positions_N: Tensor, layout: Layout, rows_B: Tensor | None = None
    ) -> Tensor:
        """The last layer's output for N tokens arranged as the layout says, or for B of them."""
        decoder = self._decoder
        x_N_W = decoder.embed_tokens(ids_N)
        rotation = self._rotation(positions_N)
        for index, layer in enumerate(self._layers):
            wanted = rows_B if index == len(self._layers) - 1 else None
            x_N_W = self._attend(index, layer, x_N_W, rotation, layout, wanted)
            gate_up = torch.mm(rms_norm(x_N_W, layer.mlp_norm, self._eps), layer.gate_up)
            gate, up = gate_up.chunk(2, -1)
            x_N_W = torch.addmm(x_N_W, silu(gate) * up, layer.down)
        return rms_norm(x_N_W, self._norm, self._eps)

    def logits(self, hidden_B_W: Tensor) -> Tensor:
        """The output head."""
        return torch.mm(hidden_B_W, self._head)

    def _rotation(self, positions_N: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and signed sines, [N, 1, D]; kept from step to step where they stay the same."""
        rotary = self._decoder.rotary_emb
        if torch.is_grad_enabled() or rotary.rope_type in ("dynamic", "longrope"):
            table_N_2_1_D = _rotations(rotary, positions_N)
        else:
            highest = int(positions_N.max())
            if highest >= len(self._rotations):
                self._rotations = _rotations(rotary, torch.arange(2 * highest + 1))
            table_N_2_1_D = self._rotations[positions_N]
        cos, sin = table_N_2_1_D.unbind(1)
        return cos, sin

    def _attend(
        self,
        index: int,
        layer: _Layer,
        x_N_W: Tensor,
        rotation: tuple[Tensor, Tensor],
        layout: Layout,
        rows_B: Tensor | None,
    ) -> Tensor:
        heads, key_heads = self._heads, self._key_heads
        normal = rms_norm(x_N_W, layer.input_norm, self._eps)
        if layer.qkv_bias is None:
            joint = torch.mm(normal, layer.qkv)
        else:
            joint = torch.addmm(layer.qkv_bias, normal, layer.qkv)
        joint = joint.view(len(joint), heads + 2 * key_heads, -1)
        qk, v = joint.split((heads + key_heads, key_heads), 1)
        if layer.head_norm is not None:
            qk = rms_norm(qk, layer.head_norm, self._eps)
        cos, sin = rotation
        qk = torch.addcmul(qk * cos, qk.roll(qk.shape[-1] // 2, -1), sin)
        q, k = qk.split((heads, key_heads), 1)
        told = layout.attend(index, q, k, v)
        if rows_B is not None:
            # Nobody attends to the last layer's output: what is not asked for ends here.
            x_N_W, told = x_N_W[rows_B], told[rows_B]
        return torch.addmm(x_N_W, told.flatten(1), layer.out)


class _RmsNorm(Function):
    """Root mean square normalisation; the gradient that autograd derives takes twice as long."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        norm: Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        scale = (norm * norm).mul_(1 / x.shape[-1]).add_(eps).rsqrt_()
        ctx.save_for_backward(x, weight, scale)
        return (x * scale).mul_(weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor | None, None]:
        x, weight, scale = ctx.saved_tensors
        normal = x * scale
        grad_weight = None
        if ctx.needs_input_grad[1]:
            grad_weight = (grad * normal).sum(tuple(range(grad.dim() - weight.dim())))
        grad = grad * weight
        along = (grad * normal).mean(-1, keepdim=True)
        return grad.sub_(normal.mul_(along)).mul_(scale), grad_weight, None


def rms_norm(x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
    """Normalise the last axis; the weight has the shape of the last axes.

    Without gradients it comes multiplied by the root of the last axis' size (`_for_norm`), or
    not at all where the next product has it.
    """
    if torch.is_grad_enabled():
        return _RmsNorm.apply(x, weight, eps)  # type: ignore[no-any-return, no-untyped-call]
    norm: Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    # One operation on few numbers costs as much as one on many: x / sqrt(norm^2 + size * eps).
    normal = x / norm.hypot_(_scalar((x.shape[-1] * eps) ** 0.5))
    return normal if weight is None else normal.mul_(weight)


@cache
def _scalar(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float32)


@dataclass
class _Switch:
    """Who wants oneDNN out; the lock is for training in one thread while another samples."""

    lock: threading.Lock
    users: int = 0
    was_on: bool = True


_switch = _Switch(threading.Lock())


@contextmanager
def plain_products(dtype: torch.dtype) -> Iterator[None]:
    """Keep oneDNN out of products of float32 matrices on ARM processors.

    PyTorch hands it every product with a transposed matrix, and it prepares for 0.6 ms what
    OpenBLAS multiplies in 0.05 ms while one of the matrices has few rows, as in sampling.
    """
    onednn: Any = torch.backends.mkldnn
    is_slow = dtype == torch.float32 and platform.machine() in ("aarch64", "arm64")
    if not is_slow:
        yield
        return
    # The switch is the process's: the first to come turns it off, the last to go back on.
    with _switch.lock:
        if _switch.users == 0:
            _switch.was_on, onednn.enabled = onednn.enabled, False
        _switch.users += 1
    try:
        yield
    finally:
        with _switch.lock:
            _switch.users -= 1
            if _switch.users == 0:
                onednn.enabled = _switch.was_on


def _is_known(network: Any) -> bool:
    """Whether the network is what this computes, and small enough to gain by it."""
    if not is_plain_decoder(network):
        return False
    parameters = list(network.parameters())
    if any(parameter.dtype != torch.float32 for parameter in parameters):
        return False
    num_parameters: int = sum(parameter.numel() for parameter in parameters)
    return num_parameters <= MAX_PARAMETERS


def is_plain_decoder(network: Any) -> bool:
    """Whether the network is of a known class, with nothing put into it."""
    config = getattr(network, "config", None)
    if type(network).__name__ not in FAMILIES or getattr(config, "hidden_act", None) != "silu":
        return False
    for layer in network.model.layers:
        attention, mlp = layer.self_attn, layer.mlp
        inputs = (attention.q_proj, attention.k_proj, attention.v_proj)
        plain = (attention.o_proj, mlp.gate_proj, mlp.up_proj, mlp.down_proj)
        if any(type(product) is not nn.Linear for product in (*inputs, *plain)):
            return False
        if any(product.bias is not None for product in plain):
            return False
    return type(network.lm_head) is nn.Linear and network.lm_head.bias is None


def _join(layer: Any, heads: int, key_heads: int) -> _Layer:
    attention, mlp = layer.self_attn, layer.mlp
    inputs = (attention.q_proj, attention.k_proj, attention.v_proj)
    head_norm = None
    if hasattr(attention, "q_norm"):
        head_norm = torch.cat(
            (
                attention.q_norm.weight.expand(heads, -1),
                attention.k_norm.weight.expand(key_heads, -1),
            )
        )
    has_bias = inputs[0].bias is not None
    qkv = torch.cat([product.weight for product in inputs])
    gate_up = torch.cat((mlp.gate_proj.weight, mlp.up_proj.weight))
    input_norm = layer.input_layernorm.weight
    mlp_norm = layer.post_attention_layernorm.weight
    if not torch.is_grad_enabled():
        qkv, gate_up = qkv * _for_norm(input_norm), gate_up * _for_norm(mlp_norm)
        input_norm = mlp_norm = None
        head_norm = None if head_norm is None else _for_norm(head_norm)
    return _Layer(
        input_norm=input_norm,
        qkv=_for_product(qkv),
        qkv_bias=torch.cat([product.bias for product in inputs]) if has_bias else None,
        head_norm=head_norm,
        out=_for_product(attention.o_proj.weight),
        mlp_norm=mlp_norm,
        gate_up=_for_product(gate_up),
        down=_for_product(mlp.down_proj.weight),
    )


def _for_norm(weight: Tensor) -> Tensor:
    """The weight as `rms_norm` wants it: without gradients, times the root of its axis' size."""
    return weight if torch.is_grad_enabled() else weight * weight.shape[-1] ** 0.5


def _for_product(weight: Tensor) -> Tensor:
    """[out, in] as [in, out]; without gradients a copy, which products with few rows like."""
    return weight.t() if torch.is_grad_enabled() else weight.t().contiguous()


def _rotations(rotary: Any, positions_N: Tensor) -> Tensor:
    cos, sin = rotary(torch.empty(0), positions_N[None])
    # Rotating half a head negates its first half: put the sign into the table.
    half = sin.shape[-1] // 2
    sin = torch.cat((-sin[..., :half], sin[..., half:]), -1)
    return torch.stack((cos[0], sin[0]), 1).unsqueeze(2)
