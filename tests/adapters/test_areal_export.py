"""`practicum export areal` writes folders that hold all that AReaL needs; AReaL itself is not."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from practicum.adapters.areal.episodes import read_task
from practicum.adapters.areal.export import export
from practicum.adapters.areal.settings import RolloutSettings, WorkflowSettings
from practicum.adapters.areal.translate import areal_settings, proxy_settings, refuse
from practicum.config.base import read_config
from practicum.config.train import RlConfig
from practicum.core.errors import ConfigError
from practicum.envs.registry import load_env

CONFIGS = Path(__file__).parents[2] / "configs/areal"
MINIMAL: dict[str, Any] = {"env": "textcraft", "model": {"path": "craft-base"}, "max_tasks": 3}


def make(**changes: Any) -> RlConfig:
    return read_config(RlConfig, values=MINIMAL | changes)


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    config = make(
        groups={"size": 4, "per_update": 8, "min_judged": 3},
        evaluate={"panel": "dev", "max_tasks": 5, "samples": 2},
        limits={"max_turns": 12},
        num_updates=10,
    )
    export(config, tmp_path)
    return tmp_path


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda p: p.stem)
def test_every_shipped_config_is_one_that_areal_takes(path: Path) -> None:
    config = read_config(RlConfig, path=path)
    settings = areal_settings(config, config.model.path, path.stem, 100)
    RolloutSettings(**settings["workflow_kwargs"])
    WorkflowSettings(**proxy_settings(config, settings)["workflow_kwargs"])
    assert settings["actor"]["reward_norm"]["group_size"] == config.groups.size
    assert f"configs/areal/{path.name}" in path.read_text()


def test_rows_hold_tasks_by_their_content_and_fill_a_batch(exported: Path) -> None:
    rows = [json.loads(line) for line in (exported / "train.jsonl").read_text().splitlines()]
    environment = load_env("textcraft")
    tasks = [read_task({"task": row}, environment) for row in rows]
    # Three tasks, eight a batch: AReaL would drop a batch that is not full.
    assert (len(tasks), len({task.id for task in tasks})) == (9, 3)
    held_out = (exported / "valid.jsonl").read_text().splitlines()
    assert read_task({"task": held_out[0]}, environment).split == "dev"
    by_id = read_task({"task": tasks[0].id}, environment)
    assert by_id.id == tasks[0].id
    with pytest.raises(ConfigError, match="edited after it was frozen"):
        read_task({"task": {**rows[0], "prompt": "Craft gold."}}, environment)


def test_settings_say_what_the_run_config_says(exported: Path) -> None:
    settings = yaml.safe_load((exported / "areal.yaml").read_text())
    assert settings["gconfig"]["n_samples"] == 1
    told = settings["workflow_kwargs"]
    assert (told["group_size"], told["min_judged"], told["limits"]["max_turns"]) == (4, 3, 12)
    assert (settings["total_train_steps"], settings["total_train_epochs"]) == (10, 10)
    assert settings["eval_gconfig"]["n_samples"] == 2
    assert "max_turns" not in settings["eval_workflow_kwargs"]["limits"]
    proxy = yaml.safe_load((exported / "proxy.yaml").read_text())
    assert proxy["gconfig"]["n_samples"] == 4
    assert proxy["rollout"]["agent"]["export_style"] == "concat"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"groups": {"carry_over": True}}, r"AReaL would ignore groups\.carry_over=True"),
        ({"model": {"path": "craft-base", "lora": {"rank": 4}}}, r"ignore model\.lora\.rank=4"),
        ({"algorithm": {"name": "ppo"}}, r"algorithm\.name=ppo has no counterpart"),
        ({"algorithm": {"kl": 0.1}}, r"ignore algorithm\.kl=0\.1"),
        ({"groups": {"max_per_update": 20}}, r"AReaL sets no limit to the groups"),
        ({"env": None, "mixture": {"envs": {"textcraft": {}, "sqlgym": {}}}}, r"ignore mixture"),
    ],
)
def test_what_areal_would_ignore_is_refused_by_name(changes: dict[str, Any], words: str) -> None:
    given = {key: value for key, value in (MINIMAL | changes).items() if value is not None}
    if "mixture" in given:
        given.pop("max_tasks")
    with pytest.raises(ConfigError, match=words):
        refuse(read_config(RlConfig, values=given))


def launch(folder: Path, stage: str, *more: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a launch script with a Python that says what it was asked."""
    python = folder / "python"
    python.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\necho "NO_PROXY=$NO_PROXY"\n')
    python.chmod(0o755)
    command = [str(folder / "launch"), stage, *more]
    kept = {"PATH": os.environ["PATH"], "PYTHON": str(python), **env}
    return subprocess.run(command, capture_output=True, text=True, env=kept, check=False)


def test_a_stage_is_one_command(exported: Path) -> None:
    full = launch(exported, "full", "rollout.backend=sglang:d4", NO_PROXY="intra.net")
    said = full.stdout.splitlines()
    assert said[:2] == ["-m", "practicum.adapters.areal.train"]
    assert f"train_dataset.path={exported}/train.jsonl" in said
    assert "rollout.backend=sglang:d4" in said and "total_train_steps=1" not in said
    assert said[-1].startswith("NO_PROXY=intra.net,localhost,127.0.0.1,")
    assert "total_train_steps=1" in launch(exported, "smoke").stdout
    text = launch(exported, "smoke-text", PRACTICUM_TEXT_MODEL="models/small").stdout
    assert "actor.path=models/small" in text and "workflow_kwargs.model=models/small" in text
    wrong = launch(exported, "smokey")
    assert (wrong.returncode, wrong.stderr.strip()) == (
        2,
        "launch: unknown stage smokey: smoke, smoke-text or full",
    )


def test_secrets_are_asked_for_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = "a-token-of-more-than-thirty-two-characters"
    monkeypatch.setenv("PRACTICUM_GATEWAY_TOKEN", token)
    options = {"body": "http://127.0.0.1:9", "view": "screenshot", "actions": "pyautogui"}
    export(make(env="desktop", options=options, evaluate=None), tmp_path)
    missing = launch(tmp_path, "full")
    assert (missing.returncode, missing.stderr) == (2, "launch: set PRACTICUM_GATEWAY_TOKEN\n")
    assert launch(tmp_path, "full", PRACTICUM_GATEWAY_TOKEN=token).returncode == 0
    written = [path.read_text() for path in tmp_path.iterdir()]
    assert not any(token in text for text in written)
    # Pictures do not survive AReaL's proxy.
    assert not (tmp_path / "proxy.yaml").exists()
