"""Two processes learn what one learns."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file

from practicum.store.run import Run

BASE: dict[str, Any] = {
    "env": "textcraft",
    "model": {"path": "craft-base", "max_context": 640},
    "packing": {"pack_tokens": 640},
    "sampler": {"slots": 8},
    "sampling": {"max_tokens": 48},
    "limits": {"max_turns": 3, "max_repeated_refusals": 2},
    "optimizer": {"learning_rate": 1e-4},
    "evaluate": None,
    "threads": 1,
}
SFT = BASE | {"demonstrations": {"max_tasks": 4, "longer": "skip"}, "batch_size": 4}
# PPO asks the model about all tokens first, standardises over all, and has a head of its own.
RL = BASE | {
    "num_updates": 1,
    "groups": {"size": 3, "per_update": 2, "max_per_update": 2},
    "algorithm": {"name": "ppo", "minibatches": 2, "kl": 0.01},
    "replay": {},
}


def train(kind: str, config: Path, out: Path, num_processes: int) -> dict[str, Any]:
    """Train in so many processes; whatever is started is ended."""
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={num_processes}"]
    command = [sys.executable, *(launcher if num_processes > 1 else []), "-m", "practicum", kind]
    process = subprocess.Popen(
        [*command, str(config), "--out", str(out), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        shown, errors = process.communicate(timeout=900)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert process.returncode == 0, errors
    report: dict[str, Any] = json.loads(shown)  # one process alone speaks
    return report


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "values"), [("sft", SFT), ("rl", RL)])
def test_two_processes_learn_what_one_learns(
    tmp_path: Path, kind: str, values: dict[str, Any]
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(values))
    weights, rows = [], []
    for count in (1, 2):
        report = train(kind, config, tmp_path / str(count), count)
        folder = Path(report["checkpoint"])
        weights.append(load_file(folder / "model.safetensors"))
        rows.append([row for row in Run.open(tmp_path / str(count)).metrics() if "lr" in row])
    start = load_file(_start() / "model.safetensors")
    assert any(not torch.equal(start[name].float(), weights[0][name]) for name in start)
    for name, one in weights[0].items():
        torch.testing.assert_close(weights[1][name], one, atol=1e-5, rtol=0)
    assert len(rows[0]) == len(rows[1]) > 0
    for one, two in zip(*rows, strict=True):
        assert set(one) == set(two)
        for name, value in one.items():
            if not name.startswith(("time/", "tokens/sampled_per", "tokens/trained_per")):
                assert two[name] == pytest.approx(value, abs=1e-5), name


def _start() -> Path:
    from practicum.policies.local.weights import find_model

    return find_model("craft-base")
