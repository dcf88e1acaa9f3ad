"""Trackers get every number, from the real packages, without a network."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import require

from practicum.core.errors import ConfigError
from practicum.train.trackers import INSTALL, TrackedRun, tracking

ROWS: list[dict[str, float]] = [
    {"update": 0, "reward/mean": 0.25, "error/env/timeout": 2},
    {"update": 1, "reward/mean": 0.5},
]


def make_run(path: Path, first_update: int = 0) -> TrackedRun:
    path.mkdir(exist_ok=True)
    return TrackedRun(path, {"env": "textcraft", "seed": 3}, first_update)


def log_rows(names: list[str], run: TrackedRun, rows: list[dict[str, float]]) -> tuple[str, ...]:
    with tracking(names, run) as track:
        for row in rows:
            track(row)
        return track.places


def events(folder: Path) -> list[Any]:
    """Read event files: length, its checksum, the event, its checksum."""
    from tensorboardX.proto.event_pb2 import Event

    found = []
    for file in sorted(folder.iterdir()):
        data, at = file.read_bytes(), 0
        while at < len(data):
            (size,) = struct.unpack_from("<Q", data, at)
            found.append(Event.FromString(data[at + 12 : at + 12 + size]))
            at += 12 + size + 4
    return found


def test_tensorboard_gets_every_number(tmp_path: Path) -> None:
    require("tensorboardX", INSTALL)
    run = make_run(tmp_path / "run")
    assert log_rows(["tensorboard"], run, ROWS) == (str(tmp_path / "run" / "tensorboard"),)
    scalars = [
        (event.step, value.tag, value.simple_value)
        for event in events(tmp_path / "run" / "tensorboard")
        for value in event.summary.value
    ]
    assert scalars == [
        (0, "reward/mean", 0.25),
        (0, "error/env/timeout", 2.0),
        (1, "reward/mean", 0.5),
    ]


def test_a_resumed_run_tells_tensorboard_what_to_forget(tmp_path: Path) -> None:
    require("tensorboardX", INSTALL)
    log_rows(["tensorboard"], make_run(tmp_path / "run", first_update=7), [])
    starts = [e.step for e in events(tmp_path / "run" / "tensorboard") if e.session_log.status]
    assert starts == [7]


_WANDB = """
import json, sys
from pathlib import Path
from practicum.train.trackers import TrackedRun, tracking
folder, rows = Path(sys.argv[1]), json.loads(sys.argv[2])
run = TrackedRun(folder, {"env": "textcraft", "seed": 3})
with tracking(["wandb"], run) as track:
    for row in rows:
        track(row)
    print(*track.places)
"""


def log_to_wandb(folder: Path, rows: list[dict[str, float]]) -> str:
    """Log in a process of its own: W&B starts a server that outlives a test."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _WANDB, str(folder), json.dumps(rows)],
        env={
            "PATH": "",
            "HOME": str(folder.parent),
            "PYTHONPATH": ":".join(sys.path),
            "WANDB_MODE": "offline",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # nothing of W&B's own in the middle of our progress
    return done.stdout.strip()


def wandb_records(data: bytes) -> list[Any]:
    """Read W&B's file: blocks of 32 KiB with checksum, length and kind before each piece."""
    from wandb.proto.wandb_internal_pb2 import Record

    block, head, whole, last = 32768, 7, 1, 4
    found, pieces, at = [], b"", head  # the file's own head is as long as a piece's
    while at < len(data):
        if block - at % block < head:
            at += block - at % block
        size, kind = struct.unpack_from("<HB", data, at + 4)
        pieces += data[at + head : at + head + size]
        at += head + size
        if kind in (whole, last):
            found.append(Record.FromString(pieces))
            pieces = b""
    return found


def wandb_history(folder: Path) -> list[dict[str, Any]]:
    rows = []
    for file in sorted(folder.glob("wandb/offline-run-*/*.wandb")):
        for record in wandb_records(file.read_bytes()):
            if record.WhichOneof("record_type") == "history":
                items = record.history.item
                row = {i.key or "/".join(i.nested_key): json.loads(i.value_json) for i in items}
                rows.append({k: v for k, v in row.items() if not k.startswith("_")})
    return rows


def test_wandb_gets_every_number_offline_and_a_resumed_run_goes_on(tmp_path: Path) -> None:
    require("wandb", INSTALL)
    folder = tmp_path / "run"
    folder.mkdir()
    assert log_to_wandb(folder, ROWS) == str(folder / "wandb")
    assert wandb_history(folder) == ROWS
    log_to_wandb(folder, [{"update": 1, "reward/mean": 0.75}])
    names = [f.name.rpartition("-")[2] for f in folder.glob("wandb/offline-run-*")]
    assert set(names) == {(folder / "wandb" / "practicum-run-id").read_text()}
    assert {"update": 1, "reward/mean": 0.75} in wandb_history(folder)


def test_an_unknown_tracker_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(ConfigError, match="unknown tracker 'tensorbord': did you mean"),
        tracking(["tensorbord"], make_run(tmp_path)),
    ):
        pass


@pytest.mark.parametrize(("name", "module"), [("tensorboard", "tensorboardX"), ("wandb", "wandb")])
def test_a_missing_package_comes_with_the_line_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with (
        pytest.raises(ConfigError, match=r"pip install 'practicum\[trackers\]'"),
        tracking([name], make_run(tmp_path)),
    ):
        pass


def test_trackers_are_closed_when_training_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = []

    class Fake:
        place = ""

        def __init__(self, run: TrackedRun) -> None: ...

        def log(self, update: int, metrics: object) -> None: ...

        def close(self) -> None:
            closed.append(True)

    monkeypatch.setattr("practicum.train.trackers.TRACKERS", {"fake": Fake})
    with pytest.raises(RuntimeError), tracking(["fake", "fake"], make_run(tmp_path)):
        raise RuntimeError
    assert closed == [True]
