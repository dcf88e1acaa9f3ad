import json
from pathlib import Path
from typing import Any

import pytest
from support import require_env

from practicum.cli.main import main


class Data:
    """Runs `practicum data` commands and keeps what they printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.out = ""
        self.err = ""

    def __call__(self, *arguments: object) -> int:
        self._capsys.readouterr()
        code = main(["data", *map(str, arguments)])
        self.out, self.err = self._capsys.readouterr()
        return code

    def json(self, *arguments: object, code: int = 0) -> Any:
        assert self(*arguments, "--json") == code, self.err
        return json.loads(self.out)


@pytest.fixture
def data(capsys: pytest.CaptureFixture[str], monkeypatch: Any, tmp_path: Path) -> Data:
    require_env("textcraft")
    monkeypatch.chdir(tmp_path)
    return Data(capsys)


def test_experts_write_tables_that_validate_and_split(data: Data, tmp_path: Path) -> None:
    made = data.json("expert", "textcraft", "--out", "t.jsonl", "--max-tasks", 6, "--variants", 2)
    assert made["failed"] == []
    assert 6 < made["conversations"] == made["tasks"] <= 12
    found = data.json("validate", "t.jsonl", "--env", "textcraft", "--against", "test")
    assert found["valid"] is True
    assert found["overlap"] == {"checked_against": "test", "unknown_tasks": 0}
    counted = data.json("stats", "t.jsonl")
    assert counted["answers_trained"] == made["answers"]
    parts = data.json("split", "t.jsonl", "--by", "family", "--fraction", 0.4)
    assert (tmp_path / "t.split.jsonl").exists()
    total = parts["rest"]["conversations"] + parts["split"]["conversations"]
    assert total == made["conversations"]
    for command in (["stats", "t.jsonl"], ["validate", "t.jsonl", "--env", "textcraft"]):
        assert data(*command) == 0
        assert data.out


def test_the_same_command_writes_the_same_bytes(data: Data, tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        assert data("expert", "textcraft", "--out", name, "--max-tasks", 3, "--format", "tag") == 0
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()


def test_a_table_in_another_format_or_about_the_panel_fails(data: Data) -> None:
    assert data("expert", "textcraft", "--out", "t.jsonl", "--panel", "test", "--max-tasks", 2) == 0
    found = data.json(
        "validate", "t.jsonl", "--env", "textcraft", "--against", "test", "--format", "tag", code=1
    )
    assert found["by_kind"]["overlap-task"] == 2
    assert found["by_kind"]["format"] > 2
    assert data("validate", "t.jsonl", "--env", "textcraft", "--against", "test") == 1
    assert "overlap-task 2" in data.out


def test_runs_convert_with_failed_episodes_counted(data: Data) -> None:
    arguments = ["eval", "textcraft", "--policy", "novice", "max_tasks=12", "--out", "run"]
    assert main([*arguments, "--json"]) == 0
    made = data.json("convert", "run", "t.jsonl", "--turns", "accepted")
    assert made["conversations"] + made["left_out"]["failed"] == 12
    assert data.json("convert", "run", "all.jsonl", "--keep-failed")["conversations"] == 12


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["stats", "none.jsonl"], "cannot read none.jsonl"),
        (["expert", "textcraft", "--out", "there.jsonl"], "exists already"),
        (["expert", "textcraft", "--out", "x.jsonl", "--script", "nobody"], "unknown script"),
        (["expert", "sqlgym", "--out", "x.jsonl", "--variants", "2"], "no prompt variants"),
        (["validate", "there.jsonl", "--env", "textcraft"], "there.jsonl:1 has"),
        (["convert", "there.jsonl"], "Missing argument 'out'"),
    ],
)
def test_bad_input_is_one_line(data: Data, tmp_path: Path, arguments: list[str], why: str) -> None:
    (tmp_path / "there.jsonl").write_text('{"text": "x"}\n')
    assert data(*arguments) == 2
    assert len(data.err.splitlines()) == 1
    assert why in data.err
