"""What we say to vLLM, in its own words: how to start, how to sample, which weights to take.

Written against vLLM 0.24 to 0.32.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from practicum.config.engines import VllmConfig
from practicum.core.agent import Sampling
from practicum.core.errors import ConfigError

GIB = 2**30
_CPU_CACHE_GIB = 1.0
_CPU_PREFILL_TOKENS = 8192


def start_engine(path: Path, config: VllmConfig) -> Any:
    """Start vLLM's engine in this process."""
    prepare_process()
    from vllm.engine.arg_utils import EngineArgs
    from vllm.v1.engine.llm_engine import LLMEngine

    from practicum.policies.vllm_sampler import install

    engine = LLMEngine.from_engine_args(EngineArgs(**engine_arguments(path, config)))
    install(engine)
    return engine


def prepare_process() -> None:
    """Set what vLLM reads from the environment, before it is imported."""
    # In a process of its own the engine could not be handed tensors.
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    # What it logs of its start is for its developers, and it would phone home.
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")


def engine_arguments(path: Path, config: VllmConfig) -> dict[str, Any]:
    """The settings in vLLM's own words, for `EngineArgs` or `LLM`."""
    arguments: dict[str, Any] = {
        "model": str(path),
        "dtype": _saved_dtype(path) if config.dtype == "auto" else config.dtype,
        "max_model_len": config.max_context,
        "max_num_seqs": config.max_sequences,
        "gpu_memory_utilization": config.gpu_memory_fraction,
        "enforce_eager": config.enforce_eager,
        "enable_sleep_mode": config.can_sleep,
        "enable_prefix_caching": True,
        "logprobs_mode": "processed_logprobs",
        "generation_config": "vllm",  # or the model's own top-k would be mixed into ours
        "use_tqdm_on_load": False,
        "disable_log_stats": True,
        "seed": 0,
    }
    cache_gib = config.kv_cache_gib
    if on_cpu():
        _require_cpu_support(arguments["dtype"])
        cache_gib = cache_gib or _CPU_CACHE_GIB
        arguments["enforce_eager"] = True
        arguments["enable_sleep_mode"] = False
        # A prompt that is fed in pieces breaks seeded requests: vLLM rewinds their generator
        # after each piece, and generators on the CPU cannot be rewound.
        arguments["enable_chunked_prefill"] = False
        arguments["max_num_batched_tokens"] = max(config.max_context or 0, _CPU_PREFILL_TOKENS)
    if cache_gib is not None:
        arguments["kv_cache_memory_bytes"] = int(cache_gib * GIB)
    return arguments


def _saved_dtype(path: Path) -> str:
    """The dtype of the weights in a folder; vLLM's own `auto` would halve float32."""
    try:
        saved = json.loads((path / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} holds no model: config.json cannot be read ({error})") from error
    return str(saved.get("dtype") or saved.get("torch_dtype") or "auto")


def _require_cpu_support(dtype: str) -> None:
    import torch

    is_arm = platform.machine() == "aarch64"
    if is_arm and dtype == "bfloat16" and not torch.cpu.get_capabilities().get("bf16", False):
        # vLLM would start, and then end the whole process with an illegal instruction.
        raise ConfigError("this CPU cannot compute in bfloat16: set dtype to float32")


def on_cpu() -> bool:
    """Whether this vLLM computes on the CPU."""
    from vllm.platforms import current_platform

    return bool(current_platform.is_cpu())


def sampling_params(sampling: Sampling, max_tokens: int, seed: int, stop_ids: Sequence[int]) -> Any:
    """One request's sampling in vLLM's own words."""
    from vllm.sampling_params import RequestOutputKind, SamplingParams

    return SamplingParams(
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        max_tokens=max_tokens,
        seed=seed % 2**31,
        logprobs=0,  # of the sampled token and no other
        flat_logprobs=True,
        detokenize=False,
        ignore_eos=True,  # the renderer alone says what ends an answer
        stop_token_ids=list(stop_ids),
        output_kind=RequestOutputKind.FINAL_ONLY,
    )


def replace_weights(engine: Any, tensors: Mapping[str, Any]) -> None:
    """Overwrite the weights of an idle engine and forget what was computed with the old ones."""
    import torch

    with torch.no_grad():
        if on_cpu():
            # The kernels keep copies of the weights, packed: they are loaded and packed again.
            engine.collective_rpc("reload_weights", kwargs={"weights_iterator": tensors.items()})
            engine.apply_model(_pack_again)
        else:
            # Into the memory the CUDA graphs read; the result is dropped, it is a set of names.
            engine.apply_model(lambda model: model.load_weights(tensors.items()) and None)
    if not engine.reset_prefix_cache():
        raise RuntimeError("vLLM kept prefixes that were computed with the old weights")


def _pack_again(model: Any) -> None:
    # An output layer tied to the embedding is not in the checkpoint, so reloading passes it
    # by, and it would go on with the old weights. Layers without weights were packed already.
    for layer in model.modules():
        if hasattr(layer, "cpu_linear") and layer.weight.numel() > 0:
            layer.quant_method.process_weights_after_loading(layer)
