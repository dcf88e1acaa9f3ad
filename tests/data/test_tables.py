import json
from pathlib import Path
from typing import Any

import pytest

from practicum.core.episode import (
    Completion,
    Episode,
    FormatError,
    FormatErrorKind,
    StopReason,
    Turn,
)
from practicum.core.errors import ConfigError, ErrorInfo
from practicum.core.message import Action, Image, Message, Observation
from practicum.core.task import Task
from practicum.data.tables import (
    Conversation,
    episode_conversation,
    read_table,
    write_table,
)
from practicum.store.run import Run

TASK = Task.create("toy", "Win.", {"n": 1}, difficulty="easy", family="wins")
MISSED = FormatError(FormatErrorKind.NO_ACTION, "no action")


def turn(text: str, **changes: Any) -> Turn:
    return Turn(Observation("seen"), Completion(text), Action(text), **changes)


def episode(*turns: Turn, **changes: Any) -> Episode:
    fields = {"stop": StopReason.DONE, "is_success": True, **changes}
    return Episode("e1", TASK.id, "toy", 0, 0, "Rules.", turns, Observation("end"), **fields)


def write_lines(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_an_episode_becomes_what_the_policy_saw() -> None:
    conversation = episode_conversation(episode(turn("go"), turn("win")), TASK)
    assert [(m.role, m.text) for m in conversation.messages] == [
        ("system", "Rules."),
        ("user", "seen"),
        ("assistant", "go"),
        ("user", "seen"),
        ("assistant", "win"),
    ]
    assert conversation.answers == ["go", "win"]
    assert (conversation.family, conversation.difficulty) == ("wins", "easy")
    assert conversation.outcome == "success"


def test_refused_and_misformed_answers_can_be_left_out_and_cut_ones_always_are() -> None:
    missed = Turn(Observation("seen"), Completion("hm"), None, MISSED)
    cut = Turn(Observation("seen"), Completion("go ea", "length"), Action("go ea"))
    played = episode(turn("fly", is_refused=True), missed, cut, turn("win"))
    assert episode_conversation(played).answers == ["fly", "hm", "win"]
    assert episode_conversation(played, turns="accepted").answers == ["win"]


def test_a_run_folder_is_a_table(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", "eval", {}, [TASK])
    with run.recording() as record:
        record(episode(turn("win")))
        record(episode(turn("lose"), is_success=False))
        broken = ErrorInfo("env/crash", "gone", 1)
        record(episode(turn("go"), is_success=False, stop=None, error=broken))
    read = read_table(tmp_path / "run")
    assert [c.outcome for c in read] == ["success", "failed", "broken"]
    assert {c.family for c in read} == {"wins"}


def test_what_is_written_reads_back_the_same(tmp_path: Path) -> None:
    first = episode_conversation(episode(turn("é\n\u2028go"), turn("win")), TASK)
    second = Conversation((Message("user", "a"), Message("assistant", "b")), (False, False))
    write_table(tmp_path / "new" / "t.jsonl", [first, second])
    read = read_table(tmp_path / "new" / "t.jsonl")
    assert [c.source.rpartition("/")[2] for c in read] == ["t.jsonl:1", "t.jsonl:2"]
    for before, after in zip([first, second], read, strict=True):
        assert (before.messages, before.chosen) == (after.messages, after.chosen)
        assert (before.task_id, before.outcome) == (after.task_id, after.outcome)
    with pytest.raises(ConfigError, match="exists already"):
        write_table(tmp_path / "new" / "t.jsonl", [first])


AGENT_TRAJ = {
    "item_id": "textcraft_3",
    "conversations": [
        {"from": "human", "loss": None, "value": "Rules."},
        {"from": "gpt", "loss": False, "value": "OK."},
        {"from": "human", "loss": None, "value": "Go."},
        {"from": "gpt", "loss": True, "value": "Thought: …\nAction: look"},
    ],
}


@pytest.mark.parametrize("is_array", [True, False])
def test_agenttraj_is_read_with_its_choice_of_answers(tmp_path: Path, is_array: bool) -> None:
    text = json.dumps([AGENT_TRAJ] if is_array else AGENT_TRAJ, indent=2 if is_array else None)
    (tmp_path / "t.json").write_text(text)
    (read,) = read_table(tmp_path / "t.json")
    assert [m.role for m in read.messages] == ["user", "assistant", "user", "assistant"]
    assert read.answers == ["Thought: …\nAction: look"]
    assert read.task_id == "textcraft_3"


def test_train_false_shows_an_answer_without_learning_it(tmp_path: Path) -> None:
    rows = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "a", "train": False},
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "b"},
    ]
    (read,) = read_table(write_lines(tmp_path / "t.jsonl", {"messages": rows}))
    assert read.chosen == (False, False, False, True)


GOOD = {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"prompt": "q", "completion": "a"}, "no filled list of messages"),
        ({"messages": []}, "no filled list of messages"),
        ([1], "no filled list of messages"),
        ({"messages": ["q"]}, "needs a role"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "needs a role"),
        ({"messages": [{"role": ["user"], "content": "x"}]}, "needs a role"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "content that is text"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "where one of the user is due"),
        ({"messages": [*GOOD["messages"], *GOOD["messages"][1:]]}, "one of the user is due"),
        ({"messages": [{"role": "user", "content": "x", "train": "no"}]}, "are booleans"),
        ({**GOOD, "outcome": "won"}, "write success"),
    ],
)
def test_an_unknown_shape_is_named_with_file_and_line(tmp_path: Path, row: Any, why: str) -> None:
    path = write_lines(tmp_path / "t.jsonl", GOOD, row)
    with pytest.raises(ConfigError, match=rf"t\.jsonl:2 .*{why}"):
        read_table(path)


def test_what_is_no_table_is_said_plainly(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"messages": ')
    with pytest.raises(ConfigError, match=r"t\.jsonl:1 is not JSON"):
        read_table(tmp_path / "t.jsonl")
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(ConfigError, match="holds no conversation"):
        read_table(tmp_path / "empty.jsonl")
    with pytest.raises(ConfigError, match="cannot read"):
        read_table(tmp_path / "none.jsonl")


def test_images_do_not_get_lost_in_a_table(tmp_path: Path) -> None:
    seen = Turn(Observation("seen", (Image(b"x"),)), Completion("a"), Action("a"))
    with pytest.raises(ConfigError, match="shows an image"):
        write_table(tmp_path / "t.jsonl", [episode_conversation(episode(seen))])
    assert not (tmp_path / "t.jsonl").exists()
