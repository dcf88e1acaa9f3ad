"""Runs an export with the real `verl.trainer.main_ppo` on this machine's CPU."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
OVERRIDES = (
    # No GPU: our sampler in a Ray actor in vLLM's place, float32, no kernels made for GPUs.
    "trainer.device=cpu",
    "actor_rollout_ref.rollout.name=hf",
    "actor_rollout_ref.model.use_remove_padding=false",
    "+actor_rollout_ref.model.override_config.attn_implementation=sdpa",
    "actor_rollout_ref.actor.fsdp_config.dtype=float32",
    # Left unset, FSDP computes in bfloat16 whatever the weights are, which this CPU only imitates.
    "+actor_rollout_ref.actor.fsdp_config.mixed_precision="
    "{param_dtype:fp32,reduce_dtype:fp32,buffer_dtype:fp32}",
    "actor_rollout_ref.actor.use_torch_compile=false",
    "actor_rollout_ref.actor.fsdp_config.use_torch_compile=false",
    # Two cores: one process of each kind, and Ray made to believe in a GPU.
    "+ray_kwargs.ray_init.num_gpus=1",
    "ray_kwargs.ray_init.num_cpus=8",
    "+ray_kwargs.ray_init.include_dashboard=false",
    "data.dataloader_num_workers=0",
    "actor_rollout_ref.rollout.agent.num_workers=1",
    "reward.num_workers=1",
    "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
    "trainer.logger=[console,file]",
)
"""All that an export's settings are changed in; the rest is what a GPU would train with."""
ENVIRONMENT = {
    "PYTHON": sys.executable,
    "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}",
    "VERL_USE_EXTERNAL_MODULES": "adapters.verl_cpu.platform,adapters.verl_cpu.rollout",
    "VERL_PLATFORM": "cpu",
    "VERL_ENGINE_DEVICE": "cuda",
    "VERL_ENGINE_VENDOR": "nvidia",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_agent_register_timeout_ms": "300000",  # a busy machine starts slowly
    "HYDRA_FULL_ERROR": "1",
}


@dataclass(frozen=True)
class Training:
    """What a training left behind."""

    log: str
    metrics: dict[int, dict[str, float]]
    """By update; 0 is before training."""


def train(folder: Path, *overrides: str, limit_s: float) -> Training:
    """Launch an exported folder and wait for its end; nothing is left running."""
    metrics = folder / "metrics.jsonl"
    # Ray's sockets need a short path.
    with tempfile.TemporaryDirectory(prefix="ray") as place, (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [
                folder / "launch",
                *OVERRIDES,
                f"+ray_kwargs.ray_init._temp_dir={place}",
                *overrides,
            ],
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **ENVIRONMENT, "VERL_FILE_LOGGER_PATH": str(metrics)},
        )
        try:
            code = process.wait(limit_s)
        finally:
            _end(process)
    text = (folder / "log").read_text()
    assert code == 0, text[-6000:]
    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    return Training(text, {row["step"]: row["data"] for row in rows})


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ray's processes share the session of whoever started Ray, or die with it."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            continue
