"""Evaluations: every format, resumed after kills, honest about what broke and what overlaps."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from practicum.agents.formats import FORMATS
from practicum.config.base import read_config
from practicum.config.eval import EvalConfig
from practicum.core.env import StepResult
from practicum.core.episode import Episode
from practicum.core.errors import ConfigError, EnvError
from practicum.core.message import Action
from practicum.envs.text.textcraft.env import TextCraftEnv
from practicum.evaluate import runner
from practicum.evaluate.compare import compare_runs
from practicum.store.run import Run

PRACTICUM = [sys.executable, "-m", "practicum"]


def make_config(**values: Any) -> EvalConfig:
    return read_config(
        EvalConfig, values={"env": "textcraft", "panel": "dev", "policy": "expert", **values}
    )


def evaluate(path: Path, **values: Any) -> dict[str, Any]:
    async def run() -> dict[str, Any]:
        evaluation = runner.prepare(make_config(**values))
        folder = runner.start_run(evaluation, path)
        try:
            return await runner.run_evaluation(evaluation, folder, lambda _: None)
        finally:
            await evaluation.aclose()

    return asyncio.run(run())


@pytest.mark.parametrize("name", FORMATS)
def test_the_expert_crafts_all_544_goals_in_every_format(tmp_path: Path, name: str) -> None:
    report = evaluate(tmp_path / "run", panel="all", format=name)
    assert (report["episodes"], report["success"]["mean"]) == (544, 1.0)
    assert report["format_errors"]["total"] == 0
    assert report["faults"]["total"] == 0


@pytest.mark.parametrize("panel", ["renamed", "deep"])
def test_the_expert_wins_in_held_out_worlds(tmp_path: Path, panel: str) -> None:
    assert evaluate(tmp_path / "run", panel=panel)["success"]["mean"] == 1.0


def test_a_report_says_what_stands_behind_its_numbers(tmp_path: Path) -> None:
    report = evaluate(tmp_path / "run", policy="random", samples=2)
    assert {
        "env", "panel", "panel_hash", "contract", "policy", "episodes", "tasks", "samples",
        "success", "pass_at", "turns", "invalid_action_rate", "by_difficulty", "faults",
        "overlap", "run",
    } <= report.keys()  # fmt: skip
    assert report["episodes"] == 162
    assert report["success"]["low"] < report["success"]["mean"] < report["success"]["high"]
    assert report["pass_at"]["1"] == pytest.approx(report["success"]["mean"])
    assert report["pass_at"]["2"] > report["pass_at"]["1"]
    strata = report["by_difficulty"]
    assert sum(stratum["tasks"] for stratum in strata.values()) == 81
    assert list(strata) == ["depth 1", "depth 2", "depth 3"]
    assert report["overlap"] == {"checked_against": "textcraft/train", "tasks": 0, "families": 0}
    assert json.loads((tmp_path / "run" / "report.json").read_text()) == report


def test_equal_evaluations_give_equal_bytes_whatever_runs_beside(tmp_path: Path) -> None:
    evaluate(tmp_path / "a", policy="random", samples=3, concurrency=1)
    evaluate(tmp_path / "b", policy="random", samples=3, concurrency=50)
    assert (tmp_path / "a" / "report.json").read_bytes() == (
        tmp_path / "b" / "report.json"
    ).read_bytes()


def test_another_seed_plays_other_episodes(tmp_path: Path) -> None:
    evaluate(tmp_path / "a", policy="random", max_tasks=5)
    evaluate(tmp_path / "b", policy="random", max_tasks=5, seed=1)
    said = [
        [t.completion.text for e in Run.open(tmp_path / name).episodes() for t in e.turns]
        for name in "ab"
    ]
    assert said[0] != said[1]


def test_a_replay_says_the_same_again(tmp_path: Path) -> None:
    first = evaluate(tmp_path / "a", policy="random", samples=2)
    again = evaluate(tmp_path / "b", policy=f"replay:{tmp_path / 'a'}", samples=2)
    assert {**first, "policy": ""} == {**again, "policy": ""}
    by_id = {e.id: e for e in Run.open(tmp_path / "a").episodes()}
    assert all(by_id[e.id] == e for e in Run.open(tmp_path / "b").episodes())


def test_a_replay_of_what_was_not_recorded_is_a_fault(tmp_path: Path) -> None:
    evaluate(tmp_path / "a", max_tasks=10)
    report = evaluate(tmp_path / "b", policy=f"replay:{tmp_path / 'a'}")
    assert report["faults"] == {"total": 71, "by_kind": {"policy/not-recorded": 71}}
    assert (report["episodes"], report["tasks"], report["success"]["mean"]) == (10, 10, 1.0)


def break_some_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every seventh step in the process fails, as a flaky server would."""
    steps = iter(range(10**9))
    real_step = TextCraftEnv.step

    async def step(self: TextCraftEnv, action: Action) -> StepResult:
        if next(steps) % 7 == 6:
            raise EnvError("the server went away", kind="lost-session")
        return await real_step(self, action)

    monkeypatch.setattr(TextCraftEnv, "step", step)


def test_broken_episodes_are_counted_apart_and_never_as_zero(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        break_some_steps(patched)
        report = evaluate(tmp_path / "run")
    broken = report["faults"]["total"]
    assert broken > 10
    assert report["faults"]["by_kind"] == {"env/lost-session": broken}
    assert report["episodes"] == 81 - broken
    assert report["success"]["mean"] == 1.0, "a fault became a failure"


def test_resuming_plays_broken_episodes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        break_some_steps(patched)
        evaluate(tmp_path / "run")
    played: list[Episode] = []

    async def resume() -> dict[str, Any]:
        evaluation = runner.prepare(make_config())
        run = runner.resume_run(evaluation, tmp_path / "run")
        return await runner.run_evaluation(evaluation, run, played.append)

    report = asyncio.run(resume())
    assert (report["episodes"], report["faults"]["total"]) == (81, 0)
    assert 10 < len(played) < 81
    evaluate(tmp_path / "whole")
    assert (tmp_path / "run/report.json").read_bytes() == (
        tmp_path / "whole/report.json"
    ).read_bytes()


def test_twenty_kills_at_random_moments_change_nothing(tmp_path: Path) -> None:
    """SIGKILL, resume, and again: the report has the bytes of one that was never killed."""
    options = ["--policy", "random", "--panel", "all", "--samples", "2", "--json"]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    start = [*PRACTICUM, "eval", "textcraft", *options, "--out"]
    subprocess.run([*start, str(whole)], check=True, capture_output=True)
    rng = random.Random(11)
    num_kills, patience = 0, 1.0
    while num_kills < 20:
        is_started = (killed / "config.json").exists()
        command = (
            [*PRACTICUM, "eval", "--resume", str(killed), "--json"]
            if is_started
            else [*start, str(killed)]
        )
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            process.wait(timeout=patience * rng.uniform(0.3, 1.6))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            num_kills += 1
            if not (killed / "config.json").exists():
                patience *= 1.5  # on a busy machine nothing would ever start
        _, errors = process.communicate()
        assert process.returncode in (0, -signal.SIGKILL), errors.decode()
        if process.returncode == 0:
            # It got through: take half of it away, mid-line, and go on killing.
            file = killed / "episodes.jsonl"
            os.truncate(file, rng.randrange(file.stat().st_size // 2))
            (killed / "report.json").unlink()
    subprocess.run([*PRACTICUM, "eval", "--resume", str(killed), "--json"], check=True,
                   capture_output=True)  # fmt: skip
    assert (killed / "report.json").read_bytes() == (whole / "report.json").read_bytes()


def test_overlap_with_the_training_panel_is_counted(tmp_path: Path) -> None:
    report = evaluate(tmp_path / "run", panel="all")
    assert report["overlap"] == {"checked_against": "textcraft/train", "tasks": 322, "families": 93}


def test_training_on_renamed_test_goals_is_told_by_their_families() -> None:
    prepared = runner.prepare(make_config(panel="test", trained_on="test~w7"))
    assert prepared.overlap == {
        "checked_against": "textcraft/test~w7",
        "tasks": 0,
        "families": len({task.family for task in prepared.panel}),
    }
    assert runner.prepare(make_config(panel="test", trained_on="train~w7")).overlap["families"] == 0


def test_overlap_follows_what_a_checkpoint_says(tmp_path: Path) -> None:
    tasks = runner.prepare(make_config()).panel.tasks
    manifest = {
        "name": "my training run",
        "task_ids": [task.id for task in tasks[:3]],
        "families": [tasks[0].family],
    }
    (tmp_path / "training.json").write_text(json.dumps(manifest))
    config = make_config(trained_on=str(tmp_path / "training.json"))
    assert runner.prepare(config).overlap == {
        "checked_against": "my training run",
        "tasks": 3,
        "families": 1,
    }
    with pytest.raises(ConfigError, match="cannot read the training tasks"):
        runner.prepare(make_config(trained_on=str(tmp_path / "no.json")))


@pytest.mark.parametrize(
    ("values", "is_equal"),
    [
        ({"seed": 3, "samples": 2, "policy": "random", "concurrency": 2}, True),
        ({"limits": {"turn_timeout_s": 5}}, True),
        ({"format": "tag"}, False),
        ({"panel": "test"}, False),
        ({"max_tasks": 9}, False),
        ({"limits": {"max_turns": 20}}, False),
        ({"limits": {"max_repeated_refusals": 3}}, False),
        ({"limits": {"max_repeated_refusals": None}}, True),
        ({"sampling": {"temperature": 0.5}}, False),
    ],
)
def test_the_contract_is_what_must_be_equal(values: dict[str, Any], is_equal: bool) -> None:
    one, two = (runner.prepare(make_config(**v)).contract["hash"] for v in ({}, values))
    assert (one == two) is is_equal


def test_a_run_is_resumed_under_its_own_contract_only(tmp_path: Path) -> None:
    evaluate(tmp_path / "run", max_tasks=3)
    with pytest.raises(ConfigError, match=r"another contract \(prompt, parser"):
        runner.resume_run(runner.prepare(make_config(max_tasks=3, format="tag")), tmp_path / "run")


def test_runs_are_compared_task_by_task(tmp_path: Path) -> None:
    evaluate(tmp_path / "a", policy="novice")
    evaluate(tmp_path / "b", policy="expert")
    result = compare_runs(tmp_path / "a", tmp_path / "b")
    assert result["tasks"] == 81
    assert result["contract_equal"] is True
    assert result["test"] == "exact McNemar"
    assert result["better"] == 62
    assert result["worse"] == 0
    assert result["difference"]["mean"] == pytest.approx(62 / 81)
    assert result["p_value"] == pytest.approx(2 * 0.5**62)


def test_different_contracts_are_not_compared_unless_told_to(tmp_path: Path) -> None:
    evaluate(tmp_path / "a", policy="novice")
    evaluate(tmp_path / "b", format="tag")
    with pytest.raises(ConfigError, match="prompt, parser differ"):
        compare_runs(tmp_path / "a", tmp_path / "b")
    result = compare_runs(tmp_path / "a", tmp_path / "b", allow_other_contract=True)
    assert result["contract_equal"] is False
    assert result["contract_differs_in"] == ["prompt", "parser"]


def test_ending_stuck_episodes_is_counted_and_part_of_the_contract(tmp_path: Path) -> None:
    free = evaluate(tmp_path / "a", policy="random", panel="train")
    cut = evaluate(
        tmp_path / "b", policy="random", panel="train", limits={"max_repeated_refusals": 2}
    )
    assert "repeated-refusal" not in free["stops"]
    assert cut["stops"]["repeated-refusal"] > 0
    assert sum(cut["stops"].values()) == cut["episodes"] == free["episodes"]
    assert cut["turns"]["mean"] < free["turns"]["mean"]
    with pytest.raises(ConfigError, match="limits differ"):
        compare_runs(tmp_path / "a", tmp_path / "b")


def test_runs_without_a_common_task_are_not_compared(tmp_path: Path) -> None:
    evaluate(tmp_path / "a")
    evaluate(tmp_path / "b", panel="test")
    with pytest.raises(ConfigError, match="no judged task in common"):
        compare_runs(tmp_path / "a", tmp_path / "b", allow_other_contract=True)


def test_a_hundred_scripted_episodes_take_little_cpu(tmp_path: Path) -> None:
    """A bound on processor time, not on the clock: 100 test episodes in under 2 s."""
    before = time.process_time()
    report = evaluate(tmp_path / "run", panel="test", max_tasks=100)
    assert report["episodes"] == 100
    assert time.process_time() - before < 2.0
