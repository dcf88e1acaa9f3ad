import dataclasses

import pytest

from practicum.core.canonical import canonical_json, stable_seed
from practicum.core.episode import Episode, Group
from practicum.core.errors import ConfigError, unknown_name
from practicum.core.task import Panel, Task


def make_task(goal: str = "stick", **described: str) -> Task:
    return Task.create("textcraft", f"Craft {goal}.", {"goal": goal, "n": [1, 2]}, **described)


def make_episode(task: Task) -> Episode:
    return Episode("e", task.id, task.env_id, 0, 0, "", (), None, None)


def test_id_is_the_same_for_equal_content_in_another_key_order() -> None:
    one = Task.create("e", "p", {"a": 1, "b": {"c": 2, "d": 3}})
    two = Task.create("e", "p", {"b": {"d": 3, "c": 2}, "a": 1})
    assert one.id == two.id


def test_id_is_pinned() -> None:
    assert make_task().id == "textcraft-3e93c08b4c8226df"


def test_id_changes_with_env_prompt_and_data() -> None:
    ids = {
        Task.create("e", "p", {"a": 1}).id,
        Task.create("f", "p", {"a": 1}).id,
        Task.create("e", "q", {"a": 1}).id,
        Task.create("e", "p", {"a": 2}).id,
    }
    assert len(ids) == 4


def test_split_difficulty_and_family_do_not_change_the_id() -> None:
    assert make_task(split="test", difficulty="hard", family="f").id == make_task().id


def test_an_edited_task_is_found_out() -> None:
    edited = dataclasses.replace(make_task(), prompt="Craft gold.")
    with pytest.raises(ConfigError, match="edited"):
        edited.verify()


def test_a_panel_hash_does_not_depend_on_order() -> None:
    a, b = make_task("a"), make_task("b")
    assert Panel("x", (a, b)).hash == Panel("y", (b, a)).hash


def test_a_panel_refuses_a_task_twice() -> None:
    with pytest.raises(ConfigError, match="twice"):
        Panel("x", (make_task(), make_task()))


def test_a_group_holds_one_task() -> None:
    task, other = make_task("a"), make_task("b")
    assert Group(task, (make_episode(task),)).episodes
    with pytest.raises(ValueError, match=other.id):
        Group(task, (make_episode(task), make_episode(other)))


def test_canonical_json_refuses_nan() -> None:
    with pytest.raises(ValueError, match="JSON"):
        canonical_json({"a": float("nan")})


def test_seeds_do_not_run_their_parts_together() -> None:
    assert stable_seed("ab", "c") != stable_seed("a", "bc")


def test_unknown_names_come_with_the_nearest_one() -> None:
    assert "did you mean 'textcraft'?" in str(unknown_name("env", "textcarft", ["textcraft"]))
