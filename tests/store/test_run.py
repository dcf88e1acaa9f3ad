"""A run folder survives a kill at any byte, two writers, damage, and old and new versions."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from practicum.core.episode import (
    Completion,
    Episode,
    FormatError,
    FormatErrorKind,
    StopReason,
    Turn,
)
from practicum.core.errors import ConfigError, ErrorInfo, StoreError
from practicum.core.message import Action, Image, Observation
from practicum.core.reward import Reward
from practicum.core.task import Task
from practicum.store.codec import episode_from_json, episode_to_json
from practicum.store.run import Run

SAMPLES = Path(__file__).parent / "samples"
TASK = Task.create("textcraft", "Craft stick.", {"goal": "stick"}, split="dev", difficulty="1")


def make_episode(sample: int = 0, *, text: str = "Action: inventory") -> Episode:
    """An episode that uses every field there is."""
    picture = Image(b"\x89PNG not really", "image/png")
    return Episode(
        id=f"{TASK.id}.0.{sample}",
        task_id=TASK.id,
        env_id="textcraft",
        sample=sample,
        seed=7,
        system="Rules.",
        turns=(
            Turn(
                Observation("look", (picture,)),
                Completion(text, "length", (1, 2), (3, 4), (-0.5, -1.25), 11),
                Action("inventory"),
                reward=0.25,
                is_refused=True,
            ),
            Turn(
                Observation("again"),
                Completion(""),
                None,
                FormatError(FormatErrorKind.EMPTY, "Your answer was empty."),
            ),
        ),
        final=Observation("bye"),
        stop=StopReason.DONE,
        is_success=True,
        reward=Reward(0.25, True, {"shaping": 0.25}),
    )


def make_broken_episode(sample: int) -> Episode:
    error = ErrorInfo("env/timeout", "step 1 took longer than 60 s", 0)
    return Episode(
        f"{TASK.id}.0.{sample}", TASK.id, "textcraft", sample, 0, "", (), None, None, error=error
    )


def new_run(path: Path) -> Run:
    return Run.create(path, "eval", {"config": {}, "contract": {"hash": "x"}}, [TASK])


def test_an_episode_comes_back_as_it_was(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    episodes = [make_episode(0), make_broken_episode(1), make_episode(2)]
    with run.recording() as record:
        for episode in episodes:
            record(episode)
    again = Run.open(tmp_path / "run")
    assert list(again.episodes()) == episodes
    assert again.tasks() == [TASK]
    assert again.kind == "eval"


@given(text=st.text(st.characters(), max_size=40))
def test_any_text_comes_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    run = new_run(tmp_path_factory.mktemp("run"))
    with run.recording() as record:
        record(make_episode(text=text))
    assert next(run.episodes()).turns[0].completion.text == text


ids = st.lists(st.integers(0, 200_000), max_size=4).map(tuple)


@st.composite
def completions(draw: st.DrawFn) -> list[Completion]:
    """Conversations that mostly grow at their end, but need not: ids, some or none of them."""
    said: list[Completion] = []
    for _ in range(draw(st.integers(0, 5))):
        last = said[-1] if said else Completion("")
        so_far = (last.prompt_token_ids or ()) + (last.token_ids or ())
        prompt = draw(st.one_of(st.none(), ids, ids.map(so_far.__add__), ids.map(so_far.__add__)))
        token_ids = draw(st.one_of(st.none(), ids, ids))
        logprobs = draw(
            st.one_of(
                st.none(),
                st.lists(st.floats(-200, 0, width=32), max_size=4).map(tuple),
                st.lists(st.floats(-200, 0), max_size=4).map(tuple),
            )
        )
        said.append(Completion("x", "stop", prompt, token_ids, logprobs))
    return said


@given(said=completions())
def test_token_ids_and_log_probabilities_come_back_exactly(said: list[Completion]) -> None:
    turns = tuple(Turn(Observation(""), completion, Action("a")) for completion in said)
    episode = replace(make_episode(), turns=turns)
    row = json.loads(json.dumps(episode_to_json(episode, lambda _: None)))
    again = episode_from_json(row, lambda *_: Image(b""))
    assert again == episode
    assert [repr(t.completion.logprobs) for t in again.turns] == [repr(c.logprobs) for c in said]


def test_a_prompt_that_goes_on_from_the_last_turn_is_written_once() -> None:
    prompt, turns = tuple(range(300)), []
    for turn in range(20):
        completion = Completion("x", "stop", prompt, (7,) * 30, (-0.5,) * 30)
        turns.append(Turn(Observation(f"{turn}"), completion, Action("a")))
        prompt += (7,) * 30 + (1, 2, 3)
    row = episode_to_json(replace(make_episode(), turns=tuple(turns)), lambda _: None)
    said = [turn["completion"] for turn in row["turns"]]
    assert said[0]["prompt_token_ids"] == list(range(300))
    assert all(c["prompt_new_ids"] == [1, 2, 3] for c in said[1:])
    assert all("prompt_token_ids" not in c for c in said[1:])


def test_new_ids_that_follow_nothing_are_an_error() -> None:
    row = episode_to_json(make_episode(), lambda _: None)
    row["turns"][0]["completion"] = {"text": "x", "prompt_new_ids": [1]}
    with pytest.raises(StoreError, match="prompt_new_ids go on from a turn without token ids"):
        episode_from_json(row, lambda *_: Image(b""))


def test_half_a_surrogate_pair_comes_back_as_it_was(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    with run.recording() as record:
        record(make_episode(text="\ud83d and \\ud83d"))
    assert next(run.episodes()).turns[0].completion.text == "\ud83d and \\ud83d"


def test_a_kill_at_any_byte_loses_at_most_the_episode_being_written(tmp_path: Path) -> None:
    run = new_run(tmp_path / "whole")
    with run.recording() as record:
        for sample in range(3):
            record(make_episode(sample, text=f"é{sample}"))
    content = (run.path / "episodes.jsonl").read_bytes()
    whole_lines = [i + 1 for i, byte in enumerate(content) if byte == ord("\n")]
    broken = Run.open(shutil.copytree(run.path, tmp_path / "broken"))
    file = broken.path / "episodes.jsonl"
    for size in range(len(content) + 1):
        file.write_bytes(content[:size])
        kept = max(0, sum(end <= size for end in whole_lines) - 1)
        assert [e.sample for e in broken.episodes()] == list(range(kept))
        if size % 7 == 0 or size in whole_lines:
            with broken.recording() as record:
                record(make_episode(9))
            assert [e.sample for e in broken.episodes()] == [*range(kept), 9]


def test_a_damaged_line_is_named_and_nothing_is_overwritten(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    with run.recording() as record:
        record(make_episode(0))
        record(make_episode(1))
    file = run.path / "episodes.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(lines[0] + lines[1][:50] + b"\n" + lines[2])
    damaged = file.read_bytes()
    with pytest.raises(StoreError, match=r"episodes\.jsonl line 2 is damaged"):
        list(run.episodes())
    with pytest.raises(StoreError, match="line 2"), run.recording():
        pass
    assert file.read_bytes() == damaged


def test_two_writers_do_not_share_a_folder(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    with (
        run.recording(),
        pytest.raises(StoreError, match="another process"),
        Run.open(run.path).recording(),
    ):
        pass


def test_episodes_and_measurements_are_written_side_by_side(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    with run.measuring() as measure:
        with run.recording() as record:
            record(make_episode(0))
            measure({"update": 0, "reward/mean": 0.1, "error/env/timeout": 2})
        with pytest.raises(StoreError, match="another process"), Run.open(run.path).recording():
            pass
        measure({"update": 1, "reward/mean": 1 / 3})
    with Run.open(run.path).measuring() as measure:
        measure({"update": 1, "eval/success": 0.5})
    assert list(run.episodes()) == [make_episode(0)]
    assert list(run.metrics()) == [
        {"update": 0, "reward/mean": 0.1, "error/env/timeout": 2},
        {"update": 1, "reward/mean": 1 / 3},
        {"update": 1, "eval/success": 0.5},
    ]


def test_a_refused_writer_leaves_the_lock_to_its_holder(tmp_path: Path) -> None:
    run, other = new_run(tmp_path / "run"), Run.open(tmp_path / "run")
    with run.recording():
        for _ in range(2):
            with pytest.raises(StoreError, match="another process"), other.measuring():
                pass
    with other.measuring() as measure:
        measure({"update": 0})


@pytest.mark.parametrize(
    ("metrics", "complaint"),
    [
        ({"update": 3, "loss/policy": float("nan")}, "loss/policy of update 3 is nan"),
        ({"update": 3, "grad/norm": float("inf")}, "grad/norm of update 3 is inf"),
        ({"update": 3, "reward mean": 1.0}, "'reward mean' is no metric name"),
        ({"update": 3, "/reward": 1.0}, "'/reward' is no metric name"),
        ({"update": 3, "reward/mean": "high"}, "reward/mean of update 3 is 'high'"),
        ({"update": 3, "reward/mean": True}, "a metric is a number"),
        ({"reward/mean": 1.0}, "needs the number of its update, and got None"),
        ({"update": 1.0}, "needs the number of its update, and got 1.0"),
    ],
)
def test_what_is_no_measurement_is_refused(
    tmp_path: Path, metrics: dict[str, Any], complaint: str
) -> None:
    run = new_run(tmp_path / "run")
    with run.measuring() as measure:
        with pytest.raises(StoreError, match=re.escape(complaint)):
            measure(metrics)
        measure({"update": 4})
    assert list(run.metrics()) == [{"update": 4}]


def test_an_existing_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.tex").write_text("years of work")
    with pytest.raises(ConfigError, match="exists already"):
        new_run(tmp_path / "run")
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


def test_a_place_where_no_folder_can_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ConfigError, match=r"cannot make a run folder at .*Not a directory"):
        new_run(tmp_path / "file" / "run")


def test_an_empty_folder_can_be_used(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    assert new_run(tmp_path / "run").tasks() == [TASK]


def test_a_folder_that_could_not_be_made_leaves_nothing(tmp_path: Path) -> None:
    bad = Task("x", "e", "p", {"a": float("nan")})
    with pytest.raises(ValueError, match="JSON"):
        Run.create(tmp_path / "run", "eval", {}, [bad])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["config.json", "episodes.jsonl", "tasks.jsonl"])
def test_a_newer_version_is_refused_with_the_line_to_type(tmp_path: Path, name: str) -> None:
    run = new_run(tmp_path / "run")
    with run.recording() as record:
        record(make_episode())
    path = run.path / name
    head, _, rest = path.read_text().partition("\n")
    if name == "config.json":
        path.write_text(json.dumps({**json.loads(path.read_text()), "version": 99}))
    else:
        path.write_text(json.dumps({**json.loads(head), "version": 99}) + "\n" + rest)
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"version 99.*pip install --upgrade practicum"):
        again = Run.open(run.path)
        again.tasks()
        with again.recording():
            pass
    assert path.read_bytes() == before


@pytest.mark.parametrize("version", sorted(p.name for p in SAMPLES.iterdir()))
def test_every_released_version_can_be_read(version: str) -> None:
    run = Run.open(SAMPLES / version)
    assert [e.sample for e in run.episodes()] == [0, 1]
    assert next(run.episodes()) == make_episode(0)
    assert list(run.episodes())[1] == make_broken_episode(1)
    assert run.tasks() == [TASK]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": "other"}'])
def test_a_folder_that_is_no_run_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(StoreError, match=r"config\.json"):
        Run.open(tmp_path)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no such folder"):
        Run.open(tmp_path / "nowhere")


def test_a_lost_or_changed_picture_is_an_error(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    with run.recording() as record:
        record(make_episode())
    picture = next((run.path / "images").iterdir())
    picture.write_bytes(b"other")
    with pytest.raises(StoreError, match="changed"):
        list(run.episodes())
    picture.unlink()
    with pytest.raises(StoreError, match="missing"):
        list(run.episodes())
