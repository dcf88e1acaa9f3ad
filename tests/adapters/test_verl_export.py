"""Exports for verl: tables, settings and scripts; what verl would ignore is refused by name."""

from __future__ import annotations

import json
import os
from collections import Counter
from copy import deepcopy
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from support import require_env

from practicum.adapters.exporting import TaskSet
from practicum.adapters.verl.rows import EpisodeSpec, _shares
from practicum.adapters.verl.settings import verl_settings
from practicum.cli.main import main
from practicum.config.base import read_config
from practicum.config.mixture import PartConfig
from practicum.config.train import RlConfig
from practicum.core.errors import ConfigError
from practicum.envs.registry import load_env
from tools.verl_configs import FOLDER, shipped

CONFIG = {
    "env": "textcraft",
    "panel": "dev",
    "difficulties": ["depth 1"],
    "model": {"path": "craft-base", "max_context": 1024},
    "packing": {"pack_tokens": 4096},
    "sampling": {"max_tokens": 96},
    "limits": {"max_turns": 6, "max_repeated_refusals": 2},
    "groups": {"size": 4, "per_update": 8, "max_per_update": 8},
    "evaluate": {"panel": "test", "max_tasks": 5, "samples": 2, "max_turns": 9},
}


def make_config(*overrides: str) -> RlConfig:
    return read_config(RlConfig, values=deepcopy(CONFIG), overrides=overrides)


def write_config(folder: Path, **changes: Any) -> Path:
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump({**CONFIG, **changes}))
    return path


def test_an_export_is_a_folder_that_can_be_launched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["export", "verl", str(write_config(tmp_path)), "--out", str(out), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    names = sorted(path.name for path in out.iterdir())
    assert sorted(Path(file).name for file in said["files"]) == names
    assert {"train.parquet", "val.parquet", "verl.yaml", "agent.yaml", "launch"} <= set(names)
    assert os.access(said["launch"], os.X_OK)
    assert said["overlap"] == {
        "num_train": 19, "num_held_out": 5, "num_shared": 0, "num_families": 5,
        "num_shared_families": 0,
    }  # fmt: skip
    train = pq.read_table(out / "train.parquet").to_pylist()
    held_out = pq.read_table(out / "val.parquet").to_pylist()
    assert (len(train), len(held_out)) == (19, 5)
    manifest = json.loads((out / "training.json").read_text())
    assert {row["extra_info"]["task_id"] for row in train} == set(manifest["task_ids"])
    spec, judged = (
        EpisodeSpec.model_validate_json(rows[0]["extra_info"]["practicum"])
        for rows in (train, held_out)
    )
    assert spec.task.task().id == train[0]["extra_info"]["task_id"]
    assert (spec.limits.max_turns, spec.limits.max_repeated_refusals) == (6, 2)
    assert (judged.limits.max_turns, judged.limits.max_repeated_refusals) == (9, None)
    assert (spec.min_judged, spec.retries, spec.is_held_out) == (2, 1, False)
    assert judged.is_held_out
    settings = yaml.safe_load((out / "verl.yaml").read_text())
    lengths = settings["data"]["max_prompt_length"], settings["data"]["max_response_length"]
    assert sum(lengths) == 1024
    assert lengths[0] % 64 == 0


def test_overlap_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = write_config(tmp_path, evaluate={"panel": "dev", "max_tasks": 20})
    assert main(["export", "verl", str(config), "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert "of 20 held-out tasks" in said
    assert "overlap  0 of" not in said


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("max_minutes=3", "max_minutes=3.0"),
        ("groups.carry_over=true", "groups.carry_over=True"),
        ("algorithm.negative_weight=0.5", "algorithm.negative_weight=0.5"),
        ("replay={}", "replay={}"),
        ("overlap={}", "overlap={}"),
        ("threads=2", "threads=2"),
        ("evaluate.seed=3", "evaluate.seed=3"),
        ("model.compile=true", "model.compile=True"),
        ("horizon=[{update: 0, max_turns: 3}]", "horizon="),
        ("algorithm={name: gigpo}", "algorithm.name=gigpo"),
        ("algorithm={name: ppo}", "algorithm.level=turn"),
        ("algorithm={name: ppo, level: token, value_clip: null}", "algorithm.value_clip"),
        ("algorithm={name: ppo, level: token, whiten: false}", "algorithm.whiten=False"),
        ("groups.max_per_update=24", "groups.max_per_update=24"),
        ("algorithm.minibatches=3", "algorithm.minibatches=3"),
        ("optimizer.schedule=linear", "optimizer.schedule=linear"),
        ("model.max_context=350", "model.max_context=350"),
    ],
)
def test_what_verl_would_do_otherwise_is_refused_by_name(override: str, named: str) -> None:
    values = {k: v for k, v in CONFIG.items() if k != "limits" or "horizon" not in override}
    config = read_config(RlConfig, values=deepcopy(values), overrides=[override])
    with pytest.raises(ConfigError) as refused:
        verl_settings(config, 300, "test")
    assert named in str(refused.value)


def test_settings_say_in_verls_words_what_the_config_says() -> None:
    settings = verl_settings(
        make_config("algorithm.kl=0.01", "optimizer.schedule=cosine"), 320, "n"
    )
    assert settings["data"]["train_batch_size"] == 8
    assert settings["data"]["max_response_length"] == 1024 - 320
    rollout = settings["actor_rollout_ref"]["rollout"]
    assert (rollout["n"], rollout["calculate_log_probs"]) == (4, True)
    assert rollout["val_kwargs"]["n"] == 2
    actor = settings["actor_rollout_ref"]["actor"]
    assert (actor["use_kl_loss"], actor["kl_loss_coef"]) == (True, 0.01)
    assert (actor["optim"]["lr_scheduler_type"], actor["optim"]["min_lr_ratio"]) == ("cosine", 0.1)
    algorithm = settings["algorithm"]
    assert (algorithm["adv_estimator"], algorithm["norm_adv_by_std_in_grpo"]) == ("grpo", False)
    assert algorithm["filter_groups"]["enable"] is False
    assert algorithm["rollout_correction"] == {"rollout_is": "token", "rollout_is_threshold": 2.0}
    assert settings["trainer"]["use_v1"] is True
    open_ended = verl_settings(make_config("groups.max_per_update=null"), 320, "n")
    assert open_ended["algorithm"]["filter_groups"] == {"enable": True, "metric": "reward"}
    ppo = verl_settings(make_config("algorithm={name: ppo, level: token}"), 320, "n")
    assert ppo["algorithm"]["adv_estimator"] == "gae"
    assert ppo["critic"]["optim"]["lr"] == pytest.approx(1e-4)


def test_rows_are_shared_out_by_weight() -> None:
    require_env("textcraft")
    environment = load_env("textcraft")
    tasks = list(environment.panel("dev"))
    sets = [
        TaskSet("a", PartConfig(weight=2), environment, tasks[:30], []),
        TaskSet("b", PartConfig(weight=1), environment, tasks[:40], []),
    ]
    assert _shares(sets) == {"a": 80, "b": 40}


def test_a_mixture_is_one_table(tmp_path: Path) -> None:
    parts = {
        "easy": {"env": "textcraft", "panel": "dev", "difficulties": ["depth 1"]},
        "hard": {"env": "textcraft", "panel": "dev", "difficulties": ["depth 3"], "weight": 2},
    }
    values = {k: v for k, v in CONFIG.items() if k not in ("env", "panel", "difficulties")}
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump({**values, "mixture": {"envs": parts}}))
    assert main(["export", "verl", str(path), "--out", str(tmp_path / "out")]) == 0
    rows = pq.read_table(tmp_path / "out" / "train.parquet").to_pylist()
    assert Counter(row["data_source"] for row in rows) == {
        "practicum/easy": 19,
        "practicum/hard": 38,
    }
    tasks = Counter(row["extra_info"]["task_id"] for row in rows)
    assert set(tasks.values()) == {1, 2, 3}


def test_shipped_settings_are_those_of_our_run_configs() -> None:
    written = {path.name: path.read_text() for path in FOLDER.glob("*.yaml")}
    assert written == shipped(), "write them again: python -m tools.verl_configs"
    assert len(written) == 16


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["export", "slime", "x.yaml", "--out", "o"], "unknown framework 'slime'"),
        (["export", "verl", "x.yaml"], "--out DIR"),
        (["doctor", "base", "somewhere"], "a folder goes with one of areal, verl"),
    ],
)
def test_mistakes_are_one_line(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert complaint in capsys.readouterr().err


def test_a_folder_with_something_in_it_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write_config(tmp_path)
    assert main(["export", "verl", str(config), "--out", str(tmp_path)]) == 2
    assert "not empty" in capsys.readouterr().err
