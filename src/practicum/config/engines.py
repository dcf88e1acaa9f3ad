"""What inference engines in this process can be told."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from practicum.config.base import StrictConfig


class HfConfig(StrictConfig):
    """How the in-process sampler of the `hf` policy is set up."""

    device: str = "auto"
    """`auto`: a GPU if there is one."""
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """`auto`: bfloat16 on a GPU, float32 on a CPU."""
    max_context: int = Field(2048, ge=16)
    """Tokens of a whole episode, observations and answers."""


class VllmConfig(StrictConfig):
    """How the in-process vLLM engine is set up."""

    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Of weights and computation; `auto`: as the model was saved."""
    max_context: int | None = Field(None, ge=16)
    """Tokens of a whole episode, observations and answers; unset: what the model can take."""
    max_sequences: int = Field(256, ge=1)
    """Answers sampled at once; more wait for their turn."""
    gpu_memory_fraction: float = Field(0.5, gt=0, lt=1)
    """Share of the GPU's memory for weights and key-value cache; training takes the rest."""
    kv_cache_gib: float | None = Field(None, gt=0)
    """Size of the key-value cache; unset: what the fraction leaves, and 1 GiB on a CPU."""
    enforce_eager: bool = False
    """Neither compile nor capture CUDA graphs: ready sooner, slower after; always on a CPU."""
    can_sleep: bool = False
    """Allow `sleep()`, which hands the GPU's memory to a trainer; does nothing on a CPU."""
