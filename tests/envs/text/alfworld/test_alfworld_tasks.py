"""The shipped tasks: rebuilt, disjoint, solvable in time, the same in every process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from practicum.core.task import Task
from practicum.envs.panels import panel_texts
from practicum.envs.text.alfworld import freeze, tasks
from practicum.envs.text.alfworld.goals import TWO, WORDINGS
from practicum.envs.text.alfworld.language import MAX_TURNS
from practicum.envs.text.alfworld.scenes import (
    MAX_SEARCH_TURNS,
    NUM_LAYOUTS,
    ROOMS,
    all_goals,
    layout,
)
from practicum.envs.text.alfworld.things import LAMPS, OPENABLE, PLACES, kind
from practicum.envs.text.alfworld.world import House, Scene

PANELS = Path(tasks.__file__).parent / "panels"


def all_tasks() -> list[Task]:
    return [task for name in tasks.PANELS.names() for task in tasks.PANELS.load(name)]


def furniture(task: Task) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((word, len(c)) for word, c in task.data["receptacles"].items()))


def test_shipped_panels_equal_a_fresh_build() -> None:
    for name, text in panel_texts(freeze.build_panels()).items():
        assert (PANELS / name).read_text(encoding="utf-8") == text


def test_panels_have_equal_numbers_of_each_task_type() -> None:
    sizes = {name: Counter(t.difficulty for t in tasks.PANELS.load(name)) for name in freeze.PANELS}
    assert tuple(sizes) == tasks.PANELS.names()
    for name, (_, _, num_tasks) in freeze.PANELS.items():
        assert sizes[name] == dict.fromkeys(WORDINGS, num_tasks)


def test_families_belong_to_one_split() -> None:
    splits: dict[str, set[str]] = {}
    for task in all_tasks():
        splits.setdefault(task.family, set()).add(task.split)
    assert {len(found) for found in splits.values()} == {1}


def test_unseen_rooms_are_in_no_other_panel() -> None:
    unseen = {layout_key(room, i) for room in ROOMS for i in freeze.UNSEEN}
    seen = {layout_key(room, i) for room in ROOMS for i in freeze.SEEN}
    assert unseen.isdisjoint(seen)
    for name in freeze.PANELS:
        used = {furniture(task) for task in tasks.PANELS.load(name)}
        assert used <= (unseen if name == "test_unseen" else seen)


def layout_key(room: str, index: int) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(layout(room, index).items()))


def test_every_room_can_be_searched_and_the_longest_task_done_in_time() -> None:
    # Two objects: take, go, open, move, go back, take, go, move. A treated one: take, go,
    # treat, go, open, move. Walking to where an object was seen counts with the search.
    longest = 8
    assert MAX_SEARCH_TURNS + longest <= MAX_TURNS
    for room in ROOMS:
        for index in range(1, NUM_LAYOUTS + 1):
            counts = layout(room, index)
            turns = sum(n * (2 if word in OPENABLE else 1) for word, n in counts.items())
            assert turns <= MAX_SEARCH_TURNS


def test_houses_are_consistent_and_goals_are_open_but_reachable() -> None:
    for task in all_tasks():
        scene = Scene.of(task.data)
        goal = tasks.goal_of(task)
        names = [name for inside in scene.contents.values() for name in inside]
        assert len(set(names)) == len(names)
        for place, inside in scene.contents.items():
            assert all(kind(place) in PLACES[kind(name)] for name in inside)
        counts = Counter(map(kind, names))
        assert set(names) == {f"{w} {n}" for w, m in counts.items() for n in range(1, m + 1)}
        assert counts[goal.object] >= goal.num_objects
        assert goal.target in ({kind(r) for r in scene.receptacles} | (counts.keys() & LAMPS))
        assert all(kind(door) in OPENABLE for door in scene.opened)
        assert not House(scene).fulfils(goal)


def test_all_goals_name_places_that_take_the_object() -> None:
    goals = all_goals()
    assert len(set(goals)) == len(goals)
    for goal in goals:
        assert goal.target in LAMPS or goal.target in PLACES[goal.object]
    assert not any(g.task_type == TWO and g.target == "towelholder" for g in goals)


@pytest.mark.parametrize("hash_seed", ["0", "4242"])
def test_tasks_and_transcripts_do_not_depend_on_the_hash_seed(hash_seed: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", _TRANSCRIPTS],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == _PINNED


_TRANSCRIPTS = """
import asyncio
from practicum.core.canonical import content_hash
from practicum.envs.contract import transcript, transcript_hash
from practicum.envs.text.alfworld.env import create
from practicum.envs.text.alfworld.scenes import all_goals, fitting_layouts, furnish

env = create()
goal = all_goals()[7]
task = furnish(goal, *fitting_layouts(goal, range(1, 5))[0], seed=3)
hashes = [task.id]
for task in env.panel("dev").tasks[::40]:
    for name in ("expert", "random"):
        hashes.append(transcript_hash(*asyncio.run(transcript(env, task, env.scripts[name]))))
print(content_hash(hashes))
"""

_PINNED = "00109d43c6cf428195822e69aefa3cdc935e0e36bfaf57561e7a7e8b0a0364f2"
