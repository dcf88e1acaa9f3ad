"""A compact twin of transformers' Qwen3, with its parameter names, for training and playing.

It exists for speed: no padding masks, no cache classes, and a step that advances many
episodes at once, each at its own position. `save` writes an ordinary Hugging Face folder
and checks that transformers computes the same from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast, Qwen3Config

MAX_POSITIONS = 2048
ROPE_THETA = 10_000.0
NORM_EPS = 1e-6


@dataclass(frozen=True, slots=True)
class Size:
    """The shape of a model."""

    width: int = 128
    num_layers: int = 4
    num_heads: int = 4
    num_kv_heads: int = 2
    head_width: int = 32
    mlp_width: int = 384


SIZES = {
    "tiny": Size(width=96, num_layers=4, num_heads=3, num_kv_heads=1, mlp_width=256),
    "small": Size(),
    "deep": Size(num_layers=6, mlp_width=256),
}


class Cache:
    """Keys and values of many episodes, `[layer][slot, head, position, width]`."""

    def __init__(self, size: Size, num_slots: int, length: int, device: torch.device) -> None:
        shape = (size.num_layers, num_slots, size.num_kv_heads, length, size.head_width)
        self.keys = torch.zeros(shape, device=device)
        self.values = torch.zeros(shape, device=device)

    def keep(self, slots: Tensor) -> None:
        """Drop all slots but these."""
        self.keys = self.keys[:, slots].contiguous()
        self.values = self.values[:, slots].contiguous()


class _Norm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return functional.rms_norm(x, self.weight.shape, self.weight.to(x.dtype), NORM_EPS)


class _Attention(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.size = size
        inner, kv = size.num_heads * size.head_width, size.num_kv_heads * size.head_width
        self.q_proj = nn.Linear(size.width, inner, bias=False)
        self.k_proj = nn.Linear(size.width, kv, bias=False)
        self.v_proj = nn.Linear(size.width, kv, bias=False)
        self.o_proj = nn.Linear(inner, size.width, bias=False)
        self.q_norm = _Norm(size.head_width)
        self.k_norm = _Norm(size.head_width)

    def project(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values as [batch, head, position, width]."""
        batch, length, _ = x.shape
        split = (batch, length, -1, self.size.head_width)
        q = self.q_norm(self.q_proj(x).view(split)).transpose(1, 2)
        k = self.k_norm(self.k_proj(x).view(split)).transpose(1, 2)
        v = self.v_proj(x).view(split).transpose(1, 2)
        return _rotate(q, cos, sin), _rotate(k, cos, sin), v

    def mix(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        """Attend and project back; causal where no mask is given."""
        out = functional.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=mask is None, enable_gqa=True
        )
        batch, _, length, _ = out.shape
        mixed: Tensor = self.o_proj(out.transpose(1, 2).reshape(batch, length, -1))
        return mixed


class _Mlp(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(size.width, size.mlp_width, bias=False)
        self.up_proj = nn.Linear(size.width, size.mlp_width, bias=False)
        self.down_proj = nn.Linear(size.mlp_width, size.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class _Layer(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.input_layernorm = _Norm(size.width)
        self.self_attn = _Attention(size)
        self.post_attention_layernorm = _Norm(size.width)
        self.mlp = _Mlp(size)


class _Body(nn.Module):
    def __init__(self, size: Size, vocab_size: int) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(vocab_size, size.width)
        self.layers = nn.ModuleList(_Layer(size) for _ in range(size.num_layers))
        self.norm = _Norm(size.width)


class CraftModel(nn.Module):
    """A small decoder with tied embeddings."""

    cos: Tensor
    sin: Tensor

    def __init__(self, size: Size, vocab_size: int) -> None:
        super().__init__()
        self.size = size
        self.model = _Body(size, vocab_size)
        for parameter in self.parameters():
            if parameter.ndim == 2:
                nn.init.normal_(parameter, std=0.02 if parameter.shape[0] == vocab_size else 0.06)
        half = torch.arange(0, size.head_width, 2) / size.head_width
        angles = torch.outer(torch.arange(MAX_POSITIONS), ROPE_THETA**-half).repeat(1, 2)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, ids_B_T: Tensor) -> Tensor:
        """Logits for whole sequences that start at position 0."""
        length = ids_B_T.shape[1]
        cos, sin = self.cos[None, None, :length], self.sin[None, None, :length]
        x = self.model.embed_tokens(ids_B_T)
        for layer in self.model.layers:
            assert isinstance(layer, _Layer)
            q, k, v = layer.self_attn.project(layer.input_layernorm(x), cos, sin)
            x = x + layer.self_attn.mix(q, k, v, None)
            x = x + layer.mlp(layer.post_attention_layernorm(x))
        return self._logits(x)

    def step(self, ids_B: Tensor, positions_B: Tensor, cache: Cache, length: int) -> Tensor:
        """Logits after one more token in every slot; `length` bounds the positions."""
        cos = self.cos[positions_B][:, None, None]
        sin = self.sin[positions_B][:, None, None]
        slots = torch.arange(len(ids_B), device=ids_B.device)
        seen = torch.arange(length, device=ids_B.device) <= positions_B[:, None]
        mask = seen[:, None, None, :]
        x = self.model.embed_tokens(ids_B)[:, None]
        for index, layer in enumerate(self.model.layers):
            assert isinstance(layer, _Layer)
            q, k, v = layer.self_attn.project(layer.input_layernorm(x), cos, sin)
            keys, values = cache.keys[index], cache.values[index]
            keys[slots, :, positions_B] = k[:, :, 0].to(keys.dtype)
            values[slots, :, positions_B] = v[:, :, 0].to(values.dtype)
            x = x + layer.self_attn.mix(q, keys[:, :, :length], values[:, :, :length], mask)
            x = x + layer.mlp(layer.post_attention_layernorm(x))
        return self._logits(x)[:, 0]

    def _logits(self, x: Tensor) -> Tensor:
        return functional.linear(self.model.norm(x), self.model.embed_tokens.weight).float()


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    turned = torch.cat((-second, first), dim=-1)
    return (x * cos + turned * sin).to(x.dtype)


def save(model: CraftModel, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write a Hugging Face folder in bf16 and check it against transformers."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save_pretrained(folder)
    size = model.size
    config = Qwen3Config(
        architectures=["Qwen3ForCausalLM"],
        vocab_size=model.model.embed_tokens.num_embeddings,
        hidden_size=size.width,
        intermediate_size=size.mlp_width,
        num_hidden_layers=size.num_layers,
        num_attention_heads=size.num_heads,
        num_key_value_heads=size.num_kv_heads,
        head_dim=size.head_width,
        max_position_embeddings=MAX_POSITIONS,
        rms_norm_eps=NORM_EPS,
        rope_parameters={"rope_type": "default", "rope_theta": ROPE_THETA},
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        dtype="bfloat16",
    )
    config.save_pretrained(folder)
    weights = {
        name: tensor.detach().to("cpu", torch.bfloat16).contiguous()
        for name, tensor in model.state_dict().items()
    }
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)
    _check_saved(model, folder)


def _check_saved(model: CraftModel, folder: Path) -> None:
    """Refuse a folder from which transformers computes something else."""
    theirs = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    ours = CraftModel(model.size, model.model.embed_tokens.num_embeddings)
    state = {
        name: tensor.detach().cpu().bfloat16().float()
        for name, tensor in model.state_dict().items()
    }
    ours.load_state_dict(state)
    ids = torch.arange(2, 130)[None] % model.model.embed_tokens.num_embeddings
    with torch.no_grad():
        gap = (theirs(ids).logits - ours(ids)).abs().max().item()
    assert gap < 1e-3, f"transformers differs by {gap} from what was trained"
