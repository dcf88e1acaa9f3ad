"""Reads and writes Hugging Face model folders; the only place that knows their files."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from practicum.core.errors import ConfigError
from practicum.policies.local.attention import register_attention

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class LocalModel:
    """A causal language model and its tokenizer, in this process."""

    network: Any
    tokenizer: Any
    device: torch.device

    @property
    def dtype(self) -> torch.dtype:
        """Of the weights that compute."""
        dtype: torch.dtype = next(self.network.parameters()).dtype
        return dtype

    def copy(self) -> LocalModel:
        """The same model with weights of its own, for sampling alone."""
        network = deepcopy(self.network).requires_grad_(False)
        return LocalModel(network, self.tokenizer, self.device)


def load_model(path: str | Path, *, device: str = "auto", dtype: str = "auto") -> LocalModel:
    """Load a model folder; `auto` means a GPU and bfloat16 if there is one, else float32."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    folder = find_model(path)
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if dtype == "auto":
        dtype = "bfloat16" if device.startswith("cuda") else "float32"
    files = _gguf_file(folder)
    try:
        config = AutoConfig.from_pretrained(folder, **files)
        _check_supported(folder, config)
        network: Any = AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=DTYPES[dtype],
            attn_implementation=register_attention(),
            **files,
            **_unpacked(files),
        )
        tokenizer = AutoTokenizer.from_pretrained(folder, **files)
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot load a model from {folder}: {error}") from error
    network.config.use_cache = False
    # Dropout is noise between sampler and trainer; a policy is trained as it samples.
    network.eval()
    return LocalModel(network.to(device), tokenizer, torch.device(device))


def _gguf_file(folder: Path) -> dict[str, str]:
    """Which file to read where a folder holds a GGUF file and nothing else."""
    gguf = sorted(folder.glob("*.gguf"))
    return {} if (folder / "config.json").exists() or not gguf else {"gguf_file": gguf[0].name}


def _unpacked(files: dict[str, str]) -> dict[str, Any]:
    """Packed weights can be neither trained nor saved; transformers 5.17 and later keep them so."""
    import transformers

    if not files or not hasattr(transformers, "GgufConfig"):
        return {}
    return {"quantization_config": transformers.GgufConfig(dequantize=True)}


def find_model(path: str | Path) -> Path:
    """The folder of a model: a path, or the name of one that ships with the package."""
    folder = Path(path)
    if folder.is_dir():
        return folder
    shipped = Path(__file__).parents[2] / "models"
    if (shipped / str(path)).is_dir():
        return shipped / str(path)
    names = sorted(p.name for p in shipped.iterdir() if p.is_dir()) if shipped.is_dir() else []
    raise ConfigError(
        f"no model at {path}: give a folder in Hugging Face format"
        + (f", or one of ours: {', '.join(names)}" if names else "")
    )


def save_model(model: LocalModel, folder: Path) -> None:
    """Write a folder that transformers loads; adapters are merged into a copy."""
    network = model.network
    if hasattr(network, "merge_and_unload"):
        network = deepcopy(network).merge_and_unload()
    network.save_pretrained(folder)
    model.tokenizer.save_pretrained(folder)
    for weights in folder.glob("*.safetensors"):  # which safetensors makes for its owner alone
        weights.chmod((folder / "config.json").stat().st_mode)


def _check_supported(folder: Path, config: Any) -> None:
    """Refuse what our attention would compute differently from the model's own."""
    if getattr(config, "vision_config", None) is not None:
        raise ConfigError(f"{folder} is a vision-language model: this policy reads text only")
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    uses_window = getattr(config, "sliding_window", None) is not None and getattr(
        config, "use_sliding_window", True
    )
    if kinds != {"full_attention"} or (uses_window and not hasattr(config, "layer_types")):
        raise ConfigError(
            f"{folder} ({config.model_type}) uses attention other than full causal attention "
            f"({', '.join(sorted(kinds))}), which this policy does not compute: use vllm:PATH"
        )
