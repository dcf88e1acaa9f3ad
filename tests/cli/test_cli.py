"""The command line as a user meets it: names, JSON, exit codes, one-line complaints."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from practicum.cli.main import main
from practicum.store.run import Run


class Cli:
    """Runs commands in this process and keeps what they printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.out = ""
        self.err = ""

    def __call__(self, *arguments: str | Path) -> int:
        self._capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        self.out, self.err = self._capsys.readouterr()
        return code

    def json(self, *arguments: str | Path) -> Any:
        assert self(*arguments, "--json") == 0, self.err
        return json.loads(self.out)

    def json_plan(self, *arguments: str | Path) -> Any:
        assert self("eval", *arguments, "--dry-run") == 0, self.err
        return json.loads(self.out)

    def complaint(self, *arguments: str | Path) -> str:
        """The one line printed for bad input."""
        assert self(*arguments) == 2
        assert self.out == ""
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        return lines[0]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: Any, tmp_path: Path) -> Cli:
    monkeypatch.chdir(tmp_path)
    return Cli(capsys)


def test_envs_lists_what_there_is(cli: Cli) -> None:
    rows = {row["id"]: row for row in cli.json("envs")}
    assert rows["textcraft"]["installed"] is True
    assert rows["textcraft"]["panels"]["test"] == 141
    assert "in-process" in rows["textcraft"]["transports"]
    assert cli("envs") == 0
    assert "textcraft" in cli.out


def test_tasks_lists_a_panel(cli: Cli) -> None:
    listed = cli.json("tasks", "textcraft", "--panel", "dev")
    assert len(listed["tasks"]) == 81
    assert set(listed["tasks"][0]) == {"id", "prompt", "split", "difficulty", "family"}
    assert cli("tasks", "textcraft") == 0
    assert "141 tasks" in cli.out


def test_tasks_hash_is_pinned(cli: Cli) -> None:
    hashed = cli.json("tasks", "textcraft", "--panel", "all", "--hash")
    assert hashed["tasks"] == 544
    assert hashed["hash"] == "e104db78c0b8934939f7fa7d30b90207f5ed19a6ab8dd1d9d4e190b54320fc31"


def test_check_reports_promises(cli: Cli) -> None:
    assert all(row["kept"] for row in cli.json("check", "textcraft"))


def test_check_runs_on_a_users_own_environment(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from practicum.envs.text.textcraft.env import TextCraft\n"
        "class Silent(TextCraft):\n"
        "    rules = ' '\n"
        "def create():\n"
        "    return Silent()\n"
    )
    assert cli("check", f"{tmp_path / 'mine.py'}:create") == 1
    assert "rules are empty" in cli.out


def test_eval_prints_json_and_nothing_else(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "run"
    report = cli.json("eval", "textcraft", "--policy", "expert", "--panel", "dev", "--out", out)
    assert report["run"] == str(out)
    assert report["success"]["mean"] == 1.0
    assert cli.err == ""


def test_eval_prints_a_summary_for_people(cli: Cli, tmp_path: Path) -> None:
    assert cli("eval", "textcraft", "--policy", "random", "--samples", "2", "--out", "r") == 0
    assert "over 141 tasks, 282 episodes" in cli.out
    assert "broken episodes, left out: 0" in cli.out
    assert "overlap with textcraft/train: 0 tasks, 0 families" in cli.out
    assert "pass@k" in cli.out


def test_eval_makes_a_folder_of_its_own(cli: Cli, tmp_path: Path) -> None:
    report = cli.json("eval", "textcraft", "--policy", "expert", "max_tasks=3")
    assert Path(report["run"]).parent == Path("runs")
    assert report["panel"] == "test[:3]"


def test_options_overrides_and_a_file_come_together(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "eval.yaml").write_text("env: textcraft\npolicy: random\nsamples: 5\npanel: dev\n")
    plan = cli.json_plan("--config", "eval.yaml", "--samples", "3", "limits.max_turns=7")
    assert plan["config"]["samples"] == 3
    assert plan["config"]["panel"] == "dev"
    assert plan["max_turns"] == 7
    assert plan["episodes"] == 243
    assert not (tmp_path / "runs").exists()


def test_resume_goes_on_without_being_told_again(cli: Cli, tmp_path: Path) -> None:
    whole = cli.json("eval", "textcraft", "--policy", "random", "max_tasks=9", "--out", "r")
    file = tmp_path / "r" / "episodes.jsonl"
    file.write_bytes(file.read_bytes()[:-5])
    again = cli.json("eval", "--resume", "r", "concurrency=2")
    assert again == whole
    assert len(list(Run.open(tmp_path / "r").episodes())) == 9


def test_resume_with_other_settings_is_refused(cli: Cli) -> None:
    cli("eval", "textcraft", "--policy", "expert", "max_tasks=2", "--out", "r")
    assert "started with another policy" in cli.complaint(
        "eval", "textcraft", "--policy", "random", "--resume", "r"
    )


def test_compare_prints_difference_test_and_power(cli: Cli) -> None:
    for policy in ("novice", "random"):
        cli("eval", "textcraft", "--policy", policy, "--panel", "dev", "--out", policy)
    result = cli.json("compare", "random", "novice")
    assert {
        "tasks", "difference", "p_value", "test", "minimum_detectable", "contract_equal",
    } <= result.keys()  # fmt: skip
    assert cli("compare", "random", "novice") == 0
    assert "smallest difference this panel could have shown" in cli.out


def test_doctor_names_what_is_there(cli: Cli) -> None:
    found = {f["name"]: f for f in cli.json("doctor")}
    assert found["python"]["is_fine"]
    assert found["openai"]["topic"] == "base"
    assert {f["topic"] for f in cli.json("doctor", "envs")} == {"envs"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["eval", "textcarft", "--policy", "expert"], "did you mean 'textcraft'?"),
        (["eval", "textcraft", "--policy", "exprt"], "did you mean 'expert'?"),
        (["eval", "textcraft", "--policy", "expert", "--panel", "tset"], "did you mean 'test'?"),
        (["eval", "textcraft", "--policy", "expert", "--format", "reakt"], "did you mean 'react'?"),
        (["eval", "textcraft", "--policy", "expert", "smaples=3"], "did you mean 'samples'?"),
        (
            ["eval", "textcraft", "--policy", "expert", "limits.max_turn=3"],
            "unknown key 'limits.max_turn': did you mean 'max_turns'?",
        ),
        (["eval", "textcraft", "--policy", "expert", "samples=0"], "samples: input should be"),
        (["eval", "textcraft", "--policy", "expert", "samples"], "must read key=value"),
        (["eval", "textcraft"], "key 'policy' is missing"),
        (["eval", "--policy", "expert"], "key 'env' is missing"),
        (["eval", "textcraft", "--policy", "openai:gpt"], "openai:MODEL@BASE_URL"),
        (["eval", "textcraft", "--policy", "replay:nowhere"], "nowhere is not a run folder"),
        (["eval", "textcraft", "--policy", "expert", "--config", "no.yaml"], "cannot read no.yaml"),
        (["eval", "--resume", "nowhere"], "nowhere is not a run folder"),
        (["eval", "textcraft", "--samples", "many"], "valid integer"),
        (["compare", "a", "b"], "a is not a run folder"),
        (["tasks", "textcraft", "--panel", "nope"], "unknown panel 'nope'"),
        (["check", "nope.module:create"], "cannot load an environment"),
        (["check", "no/tasks.yaml"], "there are no tasks at no/tasks.yaml"),
        (["doctor", "weather"], "unknown topic 'weather'"),
        (["evall"], "evall"),
    ],
)
def test_bad_input_gets_one_line_and_exit_code_two(
    cli: Cli, arguments: list[str], words: str, tmp_path: Path
) -> None:
    assert words in cli.complaint(*arguments)
    assert list(tmp_path.iterdir()) == []


def test_bad_yaml_is_named(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: [1")
    assert "a.yaml is not valid YAML" in cli.complaint("eval", "--config", "a.yaml")
    (tmp_path / "b.yaml").write_text("- 1")
    assert "must hold keys" in cli.complaint("eval", "--config", "b.yaml")


def test_an_existing_run_is_not_overwritten(cli: Cli, tmp_path: Path) -> None:
    assert cli("eval", "textcraft", "--policy", "expert", "max_tasks=2", "--out", "r") == 0
    before = (tmp_path / "r" / "episodes.jsonl").read_bytes()
    assert "--resume r" in cli.complaint("eval", "textcraft", "--policy", "random", "--out", "r")
    assert (tmp_path / "r" / "episodes.jsonl").read_bytes() == before


def test_an_endpoint_that_is_down_fails_the_run_and_keeps_it(cli: Cli, tmp_path: Path) -> None:
    code = cli(
        "eval", "textcraft", "--policy", "openai:m@http://127.0.0.1:9/v1", "--out", "r",
        "max_tasks=3", "endpoint.attempts=1", "--json",
    )  # fmt: skip
    assert code == 1
    report = json.loads(cli.out)
    assert report["faults"] == {"total": 3, "by_kind": {"policy/unreachable": 3}}
    assert report["success"] == {"mean": None, "low": None, "high": None}


def test_help_answers_without_anything_heavy() -> None:
    code = (
        "import sys, practicum, practicum.cli.main as m\n"
        "try: m.main(['eval', '--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'openai', 'torch', 'yaml', 'gymnasium', 'textcraft'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert "--policy" in done.stdout


def test_the_module_runs_as_a_program() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "practicum", "envs", "--json"], capture_output=True, check=True
    )
    assert json.loads(done.stdout)


def test_several_environments_are_judged_together_and_reported_apart(
    cli: Cli, tmp_path: Path
) -> None:
    report = cli.json(
        "eval", "textcraft,searchqa", "--policy", "expert", "max_tasks=6", "--out", "r"
    )
    assert report["envs"] == ["textcraft", "searchqa"]
    assert report["episodes"] == 12
    for env_id, part in report["by_env"].items():
        assert (part["env"], part["success"]["mean"]) == (env_id, 1.0)
        assert json.loads((tmp_path / "r" / env_id / "report.json").read_text()) == part
    (tmp_path / "r" / "searchqa" / "episodes.jsonl").unlink()
    assert cli.json("eval", "--resume", "r") == report
    assert cli("eval", "--resume", "r") == 0
    assert "expert on searchqa/test" in cli.out


def test_options_of_several_environments_stand_under_their_names(cli: Cli) -> None:
    plans = cli.json_plan("textcraft,searchqa", "--policy", "expert", "options.searchqa.reward=f1")
    assert [plan["config"]["options"] for plan in plans] == [{}, {"reward": "f1"}]
    assert "options.textcraft.NAME=VALUE" in cli.complaint(
        "eval", "textcraft,searchqa", "--policy", "expert", "options.reward=f1"
    )
    assert "twice" in cli.complaint("eval", "textcraft,textcraft", "--policy", "expert")


@pytest.mark.skipif(find_spec("openenv") is not None, reason="OpenEnv is installed")
def test_serving_with_openenv_names_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "textcraft", "--dialect", "openenv"]) == 2
    assert "pip install 'practicum[openenv]'" in capsys.readouterr().err
