from __future__ import annotations

import json
from pathlib import Path

import pytest
from desktops.machines import require_desktop

from practicum.cli.main import main
from practicum.desktops import packages
from practicum.desktops.hosting import State, _write_privately, runtime_folder


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


def test_a_desktop_comes_up_is_used_and_goes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    require_desktop()
    assert main(["desktop", "up", "--screen", "800x600", "--json"]) == 0
    try:
        up = json.loads(capsys.readouterr().out)
        assert {"id", "url", "token", "display", "screen", "pid", "ready_s"} <= up.keys()
        assert up["screen"] == [800, 600] and up["token"]
        assert main(["desktop", "list", "--json"]) == 0
        listed = capsys.readouterr().out
        assert [row["id"] for row in json.loads(listed)] == [up["id"]]
        assert up["token"] not in listed
        picture = tmp_path / "shot.png"
        assert main(["desktop", "shot", "--out", str(picture)]) == 0
        assert picture.read_bytes().startswith(b"\x89PNG")
        capsys.readouterr()
        assert main(["desktop", "reset", up["id"], "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["ready_s"] > 0
    finally:
        assert main(["desktop", "down", "--all"]) == 0
    assert not Path(f"/proc/{up['pid']}").exists()
    assert list(runtime_folder().iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["up", "--screen", "huge"], "write width x height"),
        (["shot"], "which desktop? none up"),
        (["reset", "x-1"], "unknown desktop 'x-1'"),
        (["down", "x-1", "--all"], "not both"),
    ],
)
def test_mistakes_are_one_line(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["desktop", *arguments]) == 2
    assert complaint in capsys.readouterr().err


def test_what_a_dead_host_left_is_cleared_away(capsys: pytest.CaptureFixture[str]) -> None:
    state = State("x-dead", "http://127.0.0.1:1", "t", ":9", (1, 1), 2**22 + 1, 0.1, "xvfb")
    from dataclasses import asdict

    _write_privately(runtime_folder() / "x-dead.json", json.dumps(asdict(state)))
    assert main(["desktop", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert list(runtime_folder().iterdir()) == []


def test_doctor_names_each_missing_package_and_the_line_to_type(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lacking = packages.Package("made-up-package", "no-such-program", "nothing")
    monkeypatch.setattr(packages, "PACKAGES", (*packages.PACKAGES, lacking))
    main(["doctor", "desktop", "--json"])
    found = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert not found["made-up-package"]["is_fine"]
    line = found["made-up-package"]["remedy"]
    assert line.endswith("apt-get install --no-install-recommends made-up-package")
    assert "namespaces" in found
