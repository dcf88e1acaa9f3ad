import pytest

from practicum.agents.formats import get_format
from practicum.core.env import Environment
from practicum.core.errors import ConfigError
from practicum.core.message import Message
from practicum.data.split import split_conversations
from practicum.data.stats import describe
from practicum.data.tables import Conversation
from practicum.data.validate import Checks, validate
from practicum.envs.registry import load_env


@pytest.fixture(scope="module")
def sqlgym() -> Environment:
    return load_env("sqlgym")


def made(number: int, answer: str = "Thought: x\nAction: look", **about: str) -> Conversation:
    messages = (Message("user", f"q{number}"), Message("assistant", answer))
    return Conversation(messages, (False, True), source=f"t:{number}", **about)  # type: ignore[arg-type]


def checks(environment: Environment, **changes: object) -> Checks:
    return Checks(environment, get_format("react"), **changes)  # type: ignore[arg-type]


def test_a_good_table_has_no_issue(sqlgym: Environment) -> None:
    result = validate([made(1), made(2, outcome="success")], checks(sqlgym))
    assert result.issues == []
    assert result.num_unknown == 2


def test_each_kind_of_issue_is_found_where_it_is(sqlgym: Environment) -> None:
    unmarked = Conversation(made(6).messages, (False, False), source="t:6")
    table = [
        made(1),
        made(2, "just words"),
        made(1),
        made(4, outcome="failed"),
        made(5, "Thought: " + "x" * 100 + "\nAction: look"),
        unmarked,
    ]
    result = validate(table, checks(sqlgym, max_length=80))
    assert [(issue.where, issue.kind) for issue in result.issues] == [
        ("t:2", "format"),
        ("t:1", "duplicate"),
        ("t:4", "outcome"),
        ("t:5", "length"),
        ("t:6", "no-answer"),
    ]
    assert "no-action" in result.issues[0].message
    assert result.counts() == dict.fromkeys(
        ["duplicate", "format", "length", "no-answer", "outcome"], 1
    )


def test_answers_that_are_only_shown_need_no_format(sqlgym: Environment) -> None:
    messages = (*made(1, "OK.").messages, *made(2).messages)
    shown = Conversation(messages, (False, False, False, True), source="t:1")
    assert validate([shown], checks(sqlgym)).issues == []


def test_overlap_is_found_by_task_and_by_family(sqlgym: Environment) -> None:
    test, train = sqlgym.panel("test"), sqlgym.panel("train")
    held_out = test.tasks[0]
    table = [
        made(1, task_id=held_out.id),
        made(2, task_id="other", family=held_out.family),
        made(3, task_id=train.tasks[0].id),
        made(4),
    ]
    result = validate(table, checks(sqlgym, against=test))
    assert [(i.where, i.kind) for i in result.issues] == [
        ("t:1", "overlap-task"),
        ("t:2", "overlap-family"),
    ]
    assert result.num_unknown == 1


def test_a_split_keeps_families_whole_and_repeats() -> None:
    table = [made(n, task_id=f"t{n}", family=f"f{n % 10}") for n in range(40)]
    rest, split = split_conversations(table, "family", 0.25, seed=1)
    assert (rest, split) == split_conversations(table, "family", 0.25, seed=1)
    assert (rest, split) != split_conversations(table, "family", 0.25, seed=2)
    assert {c.family for c in rest}.isdisjoint({c.family for c in split})
    assert len(rest) + len(split) == 40
    assert 8 <= len(split) <= 12
    rest, split = split_conversations(table, "task", 0.25)
    assert len(split) == 10


def test_a_split_that_cannot_be_made_is_refused() -> None:
    with pytest.raises(ConfigError, match="t:1 names no family"):
        split_conversations([made(1)], "family", 0.5)
    with pytest.raises(ConfigError, match="leaves one side empty"):
        split_conversations([made(1, family="f")], "family", 0.5)


def test_statistics_count_what_is_learned() -> None:
    messages = (*made(1, "OK.").messages, *made(2, "four").messages)
    shown = Conversation(messages, (False, False, False, True), difficulty="easy", task_id="t")
    found = describe([shown, made(3, "ab")], length=lambda c: len(c.messages))
    assert found["conversations"] == 2
    assert (found["answers"], found["answers_trained"]) == (3, 2)
    assert found["answer_chars"] == {"mean": 3.0, "median": 4, "p95": 4, "max": 4}
    assert found["by_difficulty"] == {"easy": 1, "unknown": 1}
    assert found["tokens"]["max"] == 4
    assert describe([])["turns"] == {}
