"""`practicum sft` and `practicum rl` on the model that ships with the package."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from practicum.cli.main import main
from practicum.policies.local.engine import Engine
from practicum.store.run import Run
from practicum.train.trainer import LocalTrainer

SMALL: dict[str, Any] = {
    "env": "textcraft",
    "model": {"path": "craft-base", "max_context": 768},
    "packing": {"pack_tokens": 1024},
    "sampler": {"slots": 16},
    "sampling": {"max_tokens": 64},
    "limits": {"max_turns": 4, "max_repeated_refusals": 2},
    "optimizer": {"learning_rate": 1e-4},
    "threads": 1,
}
RL = SMALL | {
    "num_updates": 3,
    "groups": {"size": 4, "per_update": 2, "max_per_update": 3},
    "evaluate": {"panel": "dev", "max_tasks": 6, "max_repeated_refusals": 2},
    "checkpoints": {"every": 1},
}
MIXTURE = {
    "envs": {
        "easy": {"env": "textcraft", "difficulties": ["depth 1"], "weight": 2},
        "hard": {
            "env": "textcraft",
            "difficulties": ["depth 2"],
            "limits": {"max_turns": 2},
            "evaluate": {"max_tasks": 4},
        },
    },
    "normalise": True,
    "adaptive": {"window": 4, "floor": 0.2},
}
JOINT = {key: value for key, value in RL.items() if key != "env"} | {"mixture": MIXTURE}


def write(path: Path, config: dict[str, Any]) -> Path:
    path.write_text(yaml.safe_dump(config))
    return path


def weights_hash(run: Path) -> str:
    weights = run / "checkpoints" / "latest" / "model.safetensors"
    return hashlib.sha256(weights.read_bytes()).hexdigest()


def test_sft_then_rl(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sft = SMALL | {"demonstrations": {"max_tasks": 6, "longer": "skip"}, "batch_size": 3}
    config = write(tmp_path / "sft.yaml", sft | {"evaluate": None})
    assert main(["sft", str(config), "--out", str(tmp_path / "sft"), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["updates"] == 2 and report["before"] is None

    config = write(tmp_path / "rl.yaml", RL)
    start = f"model.path={tmp_path}/sft/checkpoints/latest"
    assert main(["rl", str(config), start, "--out", str(tmp_path / "rl"), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    for key in ("run", "updates", "before", "after", "paired", "checkpoint", "timings_s"):
        assert key in report
    assert set(report["before"]) == {"mean", "low", "high"}
    assert report["paired"]["tasks"] == 6 and report["paired"]["contract_equal"]
    run = Run.open(tmp_path / "rl")
    assert [row["update"] for row in run.metrics()] == [0, 1, 2, 3, 3]
    saved_s = sum(row.get("time/saving_s", 0) for row in run.metrics())
    assert 0 < saved_s == pytest.approx(report["timings_s"]["saving"])
    episodes = list(run.episodes())
    assert episodes and all(t.completion.logprobs for e in episodes for t in e.turns)
    assert (tmp_path / "rl" / "curve.png").stat().st_size > 10_000
    assert report["overlap"]["checked_against"] == "textcraft/train"

    # Rejection sampling: the run's own successes, by the ids that were sampled.
    config = write(tmp_path / "again.yaml", SMALL | {"evaluate": None})
    again = ["demonstrations.source=run", f"demonstrations.path={tmp_path}/rl", start]
    assert main(["sft", str(config), *again, "--out", str(tmp_path / "again"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["updates"] == 1
    learned = json.loads((tmp_path / "again" / "training.json").read_text())["task_ids"]
    assert {e.task_id for e in episodes if e.is_success} <= set(learned)

    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = Path(report["checkpoint"])
    modes = {path.name: path.stat().st_mode for path in folder.iterdir()}
    assert modes["model.safetensors"] == modes["config.json"]
    assert AutoModelForCausalLM.from_pretrained(folder).num_parameters() < 2_000_000
    assert AutoTokenizer.from_pretrained(folder).chat_template
    spec = f"hf:{folder}"
    argv = ["eval", "textcraft", "--policy", spec, "--panel", "dev", "--max-turns", "2", "--json"]
    assert main([*argv, "max_tasks=2", "--out", str(tmp_path / "eval")]) == 0
    judged = json.loads(capsys.readouterr().out)
    assert judged["episodes"] == 2
    assert judged["overlap"] == {"checked_against": "textcraft/train", "tasks": 0, "families": 0}


def test_adapters_learn_repeat_and_are_merged_into_what_is_saved(tmp_path: Path) -> None:
    pytest.importorskip("peft")
    model = SMALL["model"] | {"lora": {"rank": 4}}
    sft = SMALL | {"demonstrations": {"max_tasks": 4, "longer": "skip"}, "model": model}
    config = write(tmp_path / "sft.yaml", sft | {"evaluate": None})
    for name in ("first", "again"):
        assert main(["sft", str(config), "--out", str(tmp_path / name), "--json"]) == 0
    assert weights_hash(tmp_path / "first") == weights_hash(tmp_path / "again")

    from safetensors.torch import load_file

    from practicum.policies.local.weights import find_model

    saved = load_file(tmp_path / "first" / "checkpoints" / "latest" / "model.safetensors")
    shipped = load_file(find_model("craft-base") / "model.safetensors")
    changed = {name for name, tensor in saved.items() if not tensor.equal(shipped[name])}
    assert saved.keys() == shipped.keys()
    assert any("q_proj" in name for name in changed) and "model.embed_tokens.weight" not in changed


@pytest.mark.slow
def test_rl_ends_with_the_curve_and_the_gain(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write(tmp_path / "rl.yaml", RL | {"num_updates": 1})
    small = ["difficulties=[depth 1]", "evaluate.max_tasks=2"]
    assert main(["rl", str(config), *small, "--out", str(tmp_path / "rl")]) == 0
    shown = capsys.readouterr().out
    assert "held-out" in shown and "gain " in shown and "p = " in shown
    assert {task.difficulty for task in Run.open(tmp_path / "rl").tasks()} == {"depth 1"}
    # `limits` is for training: held-out tasks are judged over the whole horizon.
    judged = json.loads((tmp_path / "rl" / "evals" / "update-000001" / "config.json").read_text())
    assert judged["config"]["limits"]["max_turns"] is None
    assert judged["config"]["limits"]["max_repeated_refusals"] == 2


@pytest.mark.parametrize(
    "config",
    [RL | {"curriculum": {"window": 4}}, JOINT],
    ids=["one environment, curriculum", "mixture"],
)
def test_a_kill_in_the_middle_of_an_update_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], config: Any
) -> None:
    config = write(tmp_path / "rl.yaml", config | {"evaluate": None})
    assert main(["rl", str(config), "--out", str(tmp_path / "whole"), "--json"]) == 0

    cut = tmp_path / "cut"
    command = [sys.executable, "-m", "practicum", "rl", str(config), "--out", str(cut), "--json"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 300
    while not (cut / "checkpoints" / "update-000001").exists():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    while (cut / "episodes.jsonl").stat().st_size == _marked(cut):  # the next update plays
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (cut / "report.json").exists()

    capsys.readouterr()
    assert main(["rl", str(config), "--out", str(cut), "--resume", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["updates"] == 3
    assert weights_hash(cut) == weights_hash(tmp_path / "whole")
    played = [[e.id for e in Run.open(tmp_path / name).episodes()] for name in ("cut", "whole")]
    assert played[0] == played[1]
    if "curriculum" in yaml.safe_load(config.read_text()):
        shares = [row["curriculum/depth_1"] for row in Run.open(cut).metrics()]
        assert len(shares) == 3 and shares[0] == 0.25 and len(set(shares)) > 1


def test_a_mixture_reports_every_environment_by_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write(tmp_path / "rl.yaml", JOINT | {"num_updates": 2})
    assert main(["rl", str(config), "--out", str(tmp_path / "run")]) == 0
    shown = capsys.readouterr()
    assert "easy: " in shown.out and "environments easy " in shown.err
    report = Run.open(tmp_path / "run").report()
    assert set(report["by_env"]) == {"easy", "hard"}
    for part, tasks in (("easy", 6), ("hard", 4)):
        told = report["by_env"][part]
        assert told["env"] == "textcraft" and told["overlap"]["tasks"] == 0
        assert set(told["before"]) == {"mean", "low", "high"}
        assert told["paired"]["tasks"] == tasks and told["paired"]["contract_equal"]
    # All tasks of all environments count once, those that are in both panels twice.
    assert report["paired"]["tasks"] == 10 and report["overlap"]["tasks"] == 0
    rows = list(Run.open(tmp_path / "run").metrics())
    assert {"eval/success", "env/easy/eval/success", "env/hard/eval/low"} <= set(rows[0])
    for row in rows[1:3]:
        counts = [row[f"env/{part}/group/count"] for part in ("easy", "hard")]
        assert sum(counts) == row["group/count"]
    assert rows[1]["env/easy/share"] == pytest.approx(0.2 + 0.6 * 2 / 3)
    longest = {
        part: max(len(e.turns) for e in Run.open(tmp_path / "run").episodes() if e.task_id in ids)
        for part, ids in (("easy", _ids(tmp_path, "depth 1")), ("hard", _ids(tmp_path, "depth 2")))
    }
    assert longest["easy"] > longest["hard"] == 2


def _ids(folder: Path, difficulty: str) -> set[str]:
    return {t.id for t in Run.open(folder / "run").tasks() if t.difficulty == difficulty}


def test_sft_shows_several_environments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = {
        name: {"env": "textcraft", "difficulties": [f"depth {depth}"], "max_tasks": 3}
        for name, depth in (("easy", 1), ("hard", 2))
    }
    sft = {key: value for key, value in SMALL.items() if key != "env"}
    sft |= {"mixture": {"envs": parts}, "demonstrations": {"longer": "skip"}, "evaluate": None}
    config = write(tmp_path / "sft.yaml", sft)
    assert main(["sft", str(config), "--out", str(tmp_path / "run"), "--json"]) == 0
    tasks = Run.open(tmp_path / "run").tasks()
    assert sorted(task.difficulty for task in tasks) == ["depth 1"] * 3 + ["depth 2"] * 3
    manifest = json.loads((tmp_path / "run" / "training.json").read_text())
    assert manifest["name"].endswith("textcraft/train")


def _marked(run: Path) -> int:
    newest = sorted((run / "checkpoints").glob("update-*"))[-1]
    size: int = json.loads((newest / "progress.json").read_text())["files"]["episodes.jsonl"]
    return size


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["model.path=nowhere"], "no model at nowhere"),
        (["num_update=3"], "did you mean 'num_updates'?"),
        (["packing.pack_tokens=64"], "must hold the longest episode"),
        (["sampling.temperature=0"], "a group learns nothing"),
        (["panel=trian"], "trian"),
        (["panel=[]"], "panel"),
        (["difficulties=[]"], "difficulties"),
        (["difficulties=[depth 9]"], "known: depth 1"),
        (["groups.variants=3", "env=babyai"], "has no prompt variants"),
    ],
)
def test_what_cannot_work_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], argv: list[str], says: str
) -> None:
    config = write(tmp_path / "rl.yaml", RL)
    assert main(["rl", str(config), *argv, "--out", str(tmp_path / "run")]) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_a_dry_run_prints_the_resolved_config(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write(tmp_path / "rl.yaml", RL)
    assert main(["rl", str(config), "groups.size=6", "--dry-run"]) == 0
    assert json.loads(capsys.readouterr().out)["groups"]["size"] == 6


def test_resuming_with_another_config_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write(tmp_path / "rl.yaml", RL | {"evaluate": None, "num_updates": 1})
    out = ["--out", str(tmp_path / "run")]
    assert main(["rl", str(config), *out, "--json"]) == 0
    assert main(["rl", str(config), "seed=9", *out, "--resume"]) == 2
    assert "started with another seed" in capsys.readouterr().err


def test_a_second_process_cannot_take_up_a_run_that_is_being_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write(tmp_path / "rl.yaml", RL | {"evaluate": None, "num_updates": 1})
    out = ["--out", str(tmp_path / "run")]
    assert main(["rl", str(config), *out, "--json"]) == 0
    before = (tmp_path / "run" / "episodes.jsonl").read_bytes()
    with Run.open(tmp_path / "run").exclusive():
        assert main(["rl", str(config), *out, "--resume"]) == 2
    assert "another process is writing" in capsys.readouterr().err
    assert (tmp_path / "run" / "episodes.jsonl").read_bytes() == before


def test_demonstrations_of_which_none_fits_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    demonstrations = {"max_tasks": 2, "longer": "skip"}
    config = write(tmp_path / "sft.yaml", SMALL | {"demonstrations": demonstrations})
    small = ["model.max_context=16", "packing.pack_tokens=16", "evaluate=null"]
    assert main(["sft", str(config), *small, "--out", str(tmp_path / "run")]) == 2
    assert "2 of 2 demonstrations are longer" in (error := capsys.readouterr().err)
    assert "none is left, raise it" in error and "set demonstrations.longer" not in error


def test_a_full_gpu_is_told_with_what_to_lower(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(*args: object, **options: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 24.00 MiB.")

    monkeypatch.setattr(LocalTrainer, "gather", fill)
    config = write(tmp_path / "rl.yaml", RL | {"evaluate": None})
    assert main(["rl", str(config), "--out", str(tmp_path / "rl")]) == 1
    told = " ".join(capsys.readouterr().err.split())
    assert "lower sampler.slots" in told and "Tried to allocate 24.00 MiB" in told
    assert "Traceback" not in told

    monkeypatch.setattr(Engine, "__init__", fill)
    asked = ["--policy", "hf:craft-base", "--panel", "dev", "max_tasks=1"]
    assert main(["eval", "textcraft", *asked, "--out", str(tmp_path / "eval")]) == 1
    assert "hf.max_context" in capsys.readouterr().err


def test_a_stopped_training_says_how_to_go_on_and_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line it prints is typed as it stands, a list of panels in it too."""
    sft = SMALL | {"demonstrations": {"max_tasks": 4, "longer": "skip"}, "batch_size": 2}
    config = write(tmp_path / "sft.yaml", sft | {"evaluate": None})
    asked = ["sft", str(config), "demonstrations.panel=[train, train~w1]"]
    with monkeypatch.context() as patch:
        patch.setattr("practicum.cli.train._listen", lambda: [signal.SIGINT])
        assert main([*asked, "--out", str(tmp_path / "run")]) == 1
    _, _, line = capsys.readouterr().err.partition("go on with: ")
    program, *arguments = shlex.split(line)
    assert program == "practicum" and arguments[:3] == asked
    assert main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["updates"] == 2
