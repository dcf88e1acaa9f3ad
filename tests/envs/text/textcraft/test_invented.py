"""Invented worlds: the same everywhere, apart from the real one, and solvable."""

from __future__ import annotations

import hashlib

import pytest

from practicum.core.errors import ConfigError
from practicum.envs.registry import load_env
from practicum.envs.text.textcraft.invented import check_apart, make_world
from practicum.envs.text.textcraft.invented_tasks import WORLDS_PER_PANEL, invented_panel
from practicum.envs.text.textcraft.versions import load_world


def test_a_panel_is_the_same_everywhere() -> None:
    panel = load_env("textcraft").panel("invented~1")
    for task in panel:
        task.verify()
    ids = "\n".join(task.id for task in panel)
    assert len(panel) == 499
    assert hashlib.sha256(ids.encode()).hexdigest().startswith("83b7d0094b744c3c")
    assert {task.split for task in panel} == {"train"}


def test_panels_share_no_world_and_no_real_name() -> None:
    worlds = [{task.data["world"] for task in invented_panel(number)} for number in "12"]
    assert [len(found) for found in worlds] == [WORLDS_PER_PANEL, WORLDS_PER_PANEL]
    assert not worlds[0] & worlds[1]
    for world_id in sorted(worlds[1])[:10]:
        check_apart(load_world(world_id))


def test_a_world_is_found_by_its_name() -> None:
    assert load_world("invented-7") is make_world(7)
    assert load_world("invented-7~w3").goals != make_world(7).goals
    with pytest.raises(ConfigError, match="invented-07"):
        load_world("invented-07")
    for digits in ("invented-", "minecraft-1.16.5~", "minecraft-1.16.5~w"):
        with pytest.raises(ConfigError):
            load_world(digits + "9" * 5000)


@pytest.mark.parametrize(
    "name", ["invented", "invented~0", "invented~w1", "invented~01", "invented~" + "9" * 5000]
)
def test_a_panel_without_a_proper_number_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="as in invented~1"):
        load_env("textcraft").panel(name)
