"""What an export writes, in the real AReaL: its loader, its advantages, its trainer's interface."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest

if find_spec("areal") is None:
    pytest.skip(
        "AReaL lives in a virtual environment of its own: make test-areal", allow_module_level=True
    )

import areal
import torch
from areal.api.cli_args import InferenceEngineConfig, NormConfig, PPOActorConfig
from areal.infra.remote_inf_engine import RemoteInfEngine
from areal.utils.data import concat_padded_tensors
from areal.utils.saver import Saver

from practicum.adapters.areal import train
from practicum.adapters.areal.doctor import (
    examine,
    load_settings,
    read_workflow,
    refuse_wrong,
)
from practicum.adapters.areal.episodes import read_task
from practicum.adapters.areal.export import export, write_settings
from practicum.adapters.areal.rollout import PracticumRollout
from practicum.adapters.areal.tensors import stand_in_row
from practicum.config.base import read_config
from practicum.config.train import RlConfig
from practicum.core.errors import ConfigError
from practicum.envs.registry import load_env

# AReaL's own imports and libraries warn.
pytestmark = pytest.mark.filterwarnings("ignore")

Row = dict[str, Any]

CONFIGS = Path(__file__).parents[2] / "configs/areal"


def _written(name: str, folder: Path) -> RlConfig:
    """What an export of a shipped config writes, apart from its tasks."""
    config = read_config(RlConfig, path=CONFIGS / f"{name}.yaml")
    write_settings(config, config.model.path, folder, num_rows=100)
    for table in ("train.jsonl", "valid.jsonl") if config.evaluate else ("train.jsonl",):
        (folder / table).touch()
    return config


@pytest.mark.parametrize("name", sorted(path.stem for path in CONFIGS.glob("*.yaml")))
def test_areal_loads_every_shipped_config(name: str, tmp_path: Path) -> None:
    _written(name, tmp_path)
    wrong = {finding.name for finding in examine(tmp_path) if not finding.is_fine}
    # A GPU, a gateway and its token are not here.
    assert wrong <= {"engine", "concurrency", "PRACTICUM_GATEWAY_TOKEN"}


@pytest.mark.parametrize("stage", ["smoke", "smoke-text", "full"])
@pytest.mark.parametrize(("name", "script"), [("waa", "launch"), ("textcraft", "launch-proxy")])
def test_areal_loads_every_stage(name: str, script: str, stage: str, tmp_path: Path) -> None:
    config = _written(name, tmp_path)
    arguments = stage_arguments(tmp_path / script, stage)

    loaded = load_settings(
        tmp_path / ("areal.yaml" if script == "launch" else "proxy.yaml"), arguments
    )

    size = config.groups.size if stage == "full" else 2
    assert loaded.actor.reward_norm.group_size == size
    assert read_workflow(loaded).group_size == size
    assert loaded.sglang.context_length == config.model.max_context


def stage_arguments(script: Path, stage: str) -> tuple[str, ...]:
    """What a launch script gives to AReaL."""
    python = script.parent / "python"
    python.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    python.chmod(0o755)
    env = {"PATH": os.environ["PATH"], "PYTHON": str(python), "PRACTICUM_GATEWAY_TOKEN": "x" * 40}
    said = subprocess.run([str(script), stage], capture_output=True, text=True, env=env, check=True)
    arguments = said.stdout.splitlines()
    return tuple(arguments[arguments.index("--config") + 2 :])


def test_doctor_names_what_areal_would_take_and_do_wrong(tmp_path: Path) -> None:
    _written("waa", tmp_path)
    text = (tmp_path / "areal.yaml").read_text()
    for old, new in (
        ("backend: sglang:d1", "backend: vllm:d1"),
        ("max_concurrent_rollouts: 1", "max_concurrent_rollouts: 4"),
        ("n_samples: 1", "n_samples: 4"),
        ("max_context: 20480", "max_context: 4096"),
        ("backend: fsdp:d1", "backend: fsdp:d1\n  attn_impl: sdpa"),
    ):
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "areal.yaml").write_text(text)

    wrong = {finding.name: finding for finding in examine(tmp_path) if not finding.is_fine}

    assert {"backend", "concurrency", "groups", "context", "attention"} <= set(wrong)
    assert "16 episodes at a time on 4 desktops" in wrong["concurrency"].detail
    (tmp_path / "areal.yaml").write_text(text.replace("eps_clip:", "behave_imp_weight_cap:"))
    assert any("AReaL cannot load it" in finding.detail for finding in examine(tmp_path))


def _row(reward: float, length: int) -> Row:
    return {
        "input_ids": torch.arange(length)[None],
        "attention_mask": torch.ones((1, length), dtype=torch.bool),
        "loss_mask": torch.tensor([[0, 0] + [1] * (length - 2)]),
        "logprobs": torch.full((1, length), -0.5),
        "prox_logp": torch.full((1, length), -0.5),
        "versions": torch.zeros((1, length), dtype=torch.int32),
        "rewards": torch.tensor([reward]),
    }


@pytest.fixture
def trackers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stands in for trackers that AReaL's trainers import and these tests have no use for."""
    for name in ("swanlab", "trackio", "wandb", "tensorboardX"):
        if find_spec(name) is None:
            module = ModuleType(name)
            module.__spec__ = ModuleSpec(name, None)
            module.SummaryWriter = object  # type: ignore[attr-defined]
            monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.usefixtures("trackers")
def test_areals_own_advantages_do_not_see_an_episode_that_stands_aside() -> None:
    from areal.trainer.ppo.actor import PPOActor

    norm = NormConfig(mean_level="group", std_level=None, group_size=3)
    config = PPOActorConfig(
        *("test", "test"), backend="fsdp:d1", kl_ctl=0.0, use_decoupled_loss=True, reward_norm=norm
    )
    judged = [_row(1.0, 5), _row(0.0, 6)]
    broken = concat_padded_tensors([*judged, stand_in_row(judged)])
    whole = concat_padded_tensors([_row(1.0, 4), _row(0.0, 7), _row(0.0, 5)])

    groups = PPOActor(config, None).compute_advantages([broken, whole])

    seen = [
        [round(float(a[m.bool()].mean()), 4) for a, m in zip(*rows, strict=True) if m.any()]
        for rows in ((group["advantages"], group["loss_mask"]) for group in groups)
    ]
    # Of the judged alone, and the group after it is cut where it begins.
    assert seen == [[0.5, -0.5], [0.6667, -0.3333, -0.3333]]


class Trainer:
    """Stands in for AReaL's trainer, which needs GPUs: notes what it is given and saves a model."""

    given: ClassVar[dict[str, Any]] = {}

    def __init__(self, config: Any, **tables: Any) -> None:
        self.given |= tables
        self.saver = config.saver

    def __enter__(self) -> Trainer:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def train(self, **asked: Any) -> None:
        self.given |= asked
        names = (self.saver.experiment_name, self.saver.trial_name, self.saver.fileroot)
        folder = Path(Saver.get_model_save_path(*names, 0, 0, 0))
        (folder / "config.json").write_text("{}")


@pytest.mark.usefixtures("trackers")
def test_an_exported_folder_starts_areals_trainer_and_models_say_what_they_learned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {"env": "textcraft", "model": {"path": "craft-base"}, "max_tasks": 20}
    export(read_config(RlConfig, values=values), tmp_path)
    monkeypatch.setattr(areal, "PPOTrainer", Trainer, raising=False)
    name_resolve = f"++cluster.name_resolve.nfs_record_root={tmp_path / 'names'}"

    arguments = stage_arguments(tmp_path / "launch", "full")
    train.main(["--config", str(tmp_path / "areal.yaml"), *arguments, name_resolve])

    given = Trainer.given
    engine = RemoteInfEngine(InferenceEngineConfig(backend="sglang:d1"), None)
    workflow = engine._resolve_workflow(given["workflow"], given["workflow_kwargs"])
    assert isinstance(workflow, PracticumRollout) and workflow.settings.group_size == 8
    rows = [read_task(row, load_env("textcraft")) for row in given["train_dataset"]]
    assert (
        len(rows) == 20 and given["dynamic_filter_fn"] == "practicum.adapters.areal.filters.teaches"
    )
    (manifest,) = (tmp_path / "checkpoints").rglob("training.json")
    assert {task.id for task in rows} <= set(
        re.findall(r"textcraft-[0-9a-f]{16}", manifest.read_text())
    )


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("rollout.agent.export_style=individual", "groups are cut by counting rows"),
        ("scheduler.type=ray", "AReaL starts no proxy under ray"),
        ("actor.reward_norm.group_size=4", "actor.reward_norm.group_size=8"),
    ],
)
def test_what_would_spoil_a_training_is_refused_before_it_starts(
    override: str, words: str, tmp_path: Path
) -> None:
    _written("textcraft", tmp_path)
    config = load_settings(tmp_path / "proxy.yaml", (override,))
    with pytest.raises(ConfigError, match=words):
        refuse_wrong(config)


def test_a_variable_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PRACTICUM_GATEWAY_TOKEN", raising=False)
    with pytest.raises(ConfigError, match="set PRACTICUM_GATEWAY_TOKEN"):
        train.check_variables(["PRACTICUM_GATEWAY_TOKEN"])
