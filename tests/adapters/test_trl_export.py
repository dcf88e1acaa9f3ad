"""A run config of ours exported to TRL: what is written is what TRL trains from."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file
from trl.trainer.grpo_config import GRPOConfig

from practicum.adapters.exporting import Exported
from practicum.adapters.trl import run
from practicum.adapters.trl.export import export
from practicum.adapters.trl.settings import trl_settings
from practicum.cli.main import main
from practicum.config.base import read_config
from practicum.config.train import RlConfig
from practicum.core.errors import ConfigError
from practicum.core.message import Message
from practicum.envs.http.wire import read_task
from practicum.policies.local.weights import find_model, load_model
from practicum.policies.rendering import Renderer
from practicum.train.checkpoint import read_manifest

SMALL = """
env: textcraft
difficulties: [depth 1]
max_tasks: 3
model: {path: craft-base, max_context: 1024, device: cpu}
num_updates: 1
groups: {size: 2, per_update: 2, max_per_update: 2}
sampling: {max_tokens: 16}
limits: {max_turns: 2}
evaluate: {panel: dev, max_tasks: 2, before: false, max_turns: 1}
checkpoints: {every: 1}
threads: 1
"""


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def small(*overrides: str) -> RlConfig:
    values = yaml.safe_load(SMALL)
    return read_config(RlConfig, values=values, overrides=overrides)


def make(folder: Path, *overrides: str) -> Exported:
    folder.mkdir()
    return export(small(*overrides), folder)


def test_the_tables_hold_whole_tasks(tmp_path: Path) -> None:
    made = make(tmp_path / "out")
    train, held_out = (
        [json.loads(line) for line in (tmp_path / "out" / name).read_text().splitlines()]
        for name in ("train.jsonl", "held_out.jsonl")
    )
    assert (len(train), len(held_out)) == (3, 2)
    for row in train:
        task = read_task(json.loads(row["task"]))
        assert (task.difficulty, row["environment"]) == ("depth 1", "textcraft")
        assert [message["role"] for message in row["prompt"]] == ["system", "user"]
    assert {row["environment"] for row in held_out} == {"textcraft, held out"}
    assert (made.overlap.num_train, made.overlap.num_held_out) == (3, 2)
    assert made.overlap.num_shared == 0


def test_the_settings_are_those_of_the_run() -> None:
    config = small("groups.per_update=4", "groups.max_per_update=4", "algorithm.minibatches=2")
    settings = trl_settings(config, prompt_tokens=200)
    made = GRPOConfig(output_dir="x", use_cpu=True, bf16=False, **settings)
    assert made.generation_batch_size == 8, "two episodes of four groups"
    assert made.per_device_train_batch_size * made.gradient_accumulation_steps == 4
    assert (made.max_steps, made.max_completion_length) == (2, 824)
    assert (made.loss_type, made.scale_rewards, made.beta) == ("dapo", "none", 0.0)
    gspo = trl_settings(small("algorithm={name: gspo}", "optimizer.schedule=cosine"), 200)
    assert (gspo["importance_sampling_level"], gspo["scale_rewards"]) == ("sequence", "group")
    assert (gspo["epsilon"], gspo["epsilon_high"]) == (3e-4, 4e-4)
    assert gspo["lr_scheduler_kwargs"] == {"min_lr_rate": 0.1}


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["groups.carry_over=true"], "groups.carry_over=True"),
        (["groups.retries=2"], "groups.retries=2"),
        (["packing.pack_tokens=4096"], "packing.pack_tokens=4096"),
        (["sampler.slots=4"], "sampler.slots=4"),
        (["algorithm.negative_weight=0"], "algorithm.negative_weight=0.0"),
        (["limits.answer_timeout_s=5"], "limits.answer_timeout_s=5.0"),
        (["max_minutes=3"], "max_minutes=3.0"),
        (["horizon=[{update: 0, max_turns: 2}]", "limits.max_turns=null"], "horizon="),
        (["replay={}"], "replay={}"),
        (["groups.max_per_update=null"], "write groups.max_per_update=2"),
        (["algorithm={name: ppo}"], "algorithm.name=ppo has no counterpart"),
        (["algorithm.minibatches=3"], "must divide"),
        (["optimizer.schedule=linear"], "ends at zero in TRL"),
        (["evaluate.temperature=0.5"], "evaluate.temperature=0.5"),
        (["model.device=cuda:1"], "model.device=cuda:1"),
    ],
)
def test_what_trl_would_ignore_is_refused_by_name(overrides: list[str], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        trl_settings(small(*overrides), prompt_tokens=200)
    assert said in str(caught.value)


def test_a_context_without_room_for_an_answer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"raise model\.max_context"):
        make(tmp_path / "out", "model.max_context=128")


def test_a_mixture_has_a_world_for_each_environment(tmp_path: Path) -> None:
    parts = "{textcraft: {max_tasks: 2, limits: {max_turns: 3}}, sqlgym: {max_tasks: 1}}"
    mixture = f"mixture={{envs: {parts}}}"
    make(
        *(tmp_path / "out", "env=null", "difficulties=null", "max_tasks=null"),
        *("model.max_context=2048", "limits.max_turns=null", mixture),
    )
    settings = yaml.safe_load((tmp_path / "out/trl.yaml").read_text())
    assert set(settings["worlds"]) == {
        *("textcraft", "textcraft, held out", "sqlgym", "sqlgym, held out")
    }
    assert settings["worlds"]["textcraft"]["limits"] == {"max_turns": 3}
    rows = map(json.loads, (tmp_path / "out/train.jsonl").read_text().splitlines())
    assert [row["environment"] for row in rows] == ["textcraft", "textcraft", "sqlgym"]


def test_the_script_starts_the_training(tmp_path: Path) -> None:
    config = tmp_path / "run.yaml"
    config.write_text(SMALL)
    out = tmp_path / "out"
    assert main(["export", "trl", str(config), "--out", str(out)]) == 0
    done = subprocess.run(
        [out / "launch", "grpo.max_steps=3"],
        env={**os.environ, "PYTHON": "echo"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [
        *("-m", "practicum.adapters.trl.run", str(out), "grpo.max_steps=3")
    ]


def test_trl_trains_goes_on_and_leaves_a_plain_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    make(out)
    quiet = "grpo.disable_tqdm=true"
    assert run.main([str(out), quiet]) == 0
    assert steps(out) == 1
    # A second start goes on where the first ended.
    assert run.main([str(out), quiet, "grpo.max_steps=2"]) == 0
    assert steps(out) == 2
    assert str(out / "model") in capsys.readouterr().out
    model = out / "model"
    ids = {json.loads(json.loads(line)["task"])["id"] for line in read_lines(out / "train.jsonl")}
    manifest = read_manifest(model)
    assert manifest is not None and ids <= set(manifest["task_ids"])
    assert "with TRL" in run_eval(model, tmp_path, capsys)["overlap"]["checked_against"]
    talk = [Message("system", "S"), Message("user", "U")]
    base = find_model("craft-base")
    for folder in (model, newest(out)):
        load_model(folder, device="cpu")
        ours = Renderer.load(folder).conversation_ids(talk)
        assert ours == Renderer.load(base).conversation_ids(talk)
        template = "chat_template.jinja"
        assert (folder / template).read_text() == (base / template).read_text()


def test_lora_is_merged_into_what_is_left(tmp_path: Path) -> None:
    out = tmp_path / "out"
    make(out, "model.lora={rank: 4}", "evaluate=null")
    assert run.main([str(out), "grpo.disable_tqdm=true"]) == 0
    base, tuned = (
        load_file(folder / "model.safetensors")
        for folder in (find_model("craft-base"), out / "model")
    )
    assert base.keys() == tuned.keys()
    assert all(torch.isfinite(weights).all() for weights in tuned.values())


def test_settings_trl_does_not_know_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    make(out)
    assert run.main([str(out), "grpo.colour=1"]) == 2
    assert "TRL refuses the settings under grpo" in capsys.readouterr().err


def run_eval(model: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Judge a model, in a few answers."""
    asked = ["eval", "textcraft", "--policy", f"hf:{model}", "--panel", "dev", "--json"]
    limits = ["--max-turns", "1", "--out", str(folder / "run"), "max_tasks=2"]
    capsys.readouterr()
    assert main([*asked, *limits, "hf.device=cpu", "sampling.max_tokens=4"]) == 0
    return json.loads(capsys.readouterr().out)


def newest(out: Path) -> Path:
    return max((out / "checkpoints").glob("checkpoint-*"))


def steps(out: Path) -> Any:
    return json.loads((newest(out) / "trainer_state.json").read_text())["global_step"]


def read_lines(path: Path) -> list[str]:
    return path.read_text().splitlines()
