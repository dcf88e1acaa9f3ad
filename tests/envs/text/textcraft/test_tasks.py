"""Panels are frozen, split by family, closed, and equal to a fresh rebuild."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from importlib.resources import files

import pytest

from practicum.core.errors import ConfigError
from practicum.envs.panels import panel_texts
from practicum.envs.registry import load_env
from practicum.envs.text.textcraft.freeze import build_panels
from practicum.envs.text.textcraft.tasks import first_observation, make_task
from practicum.envs.text.textcraft.versions import load_world
from practicum.envs.text.textcraft.world import DEFAULT_WORLD


def test_shipped_panels_equal_a_fresh_build() -> None:
    folder = files("practicum.envs.text.textcraft") / "panels"
    for name, text in panel_texts(build_panels()).items():
        assert (folder / name).read_text(encoding="utf-8") == text, name


def test_panels_hold_every_goal_once() -> None:
    env = load_env("textcraft")
    sizes = {name: len(env.panel(name)) for name in env.panel_names()}
    assert sizes == {
        "train": 322,
        "dev": 81,
        "test": 141,
        "all": 544,
        "legacy": 544,
        "renamed": 141,
        "deep": 48,
    }
    split = [task.id for name in ("train", "dev", "test") for task in env.panel(name)]
    assert sorted(split) == sorted(task.id for task in env.panel("all"))


def test_no_held_out_goal_can_be_crafted_on_the_way_to_a_training_goal() -> None:
    env, world = load_env("textcraft"), load_world(DEFAULT_WORLD)
    held_out = {t.data["goal"] for name in ("dev", "test") for t in env.panel(name)}
    for task in env.panel("train"):
        crafted = {recipe.output for recipe in world.recipe_tree(task.data["goal"])}
        assert not crafted & held_out, task.prompt


def test_every_depth_is_in_the_test_panel() -> None:
    strata = {task.difficulty for task in load_env("textcraft").panel("test")}
    assert strata == {"depth 1", "depth 2", "depth 3", "depth 4"}


def test_legacy_is_in_agentgyms_order() -> None:
    tasks = load_env("textcraft").panel("legacy").tasks
    world = load_world(DEFAULT_WORLD)
    assert [t.data["goal"] for t in tasks] == sorted(world.goals, key=world.depths.__getitem__)
    assert [t.difficulty for t in tasks] == sorted(t.difficulty for t in tasks)


def test_the_renamed_panel_shows_no_minecraft_word() -> None:
    for task in load_env("textcraft").panel("renamed"):
        for word in ("oak", "iron", "planks", "stone"):
            assert f" {word}" not in first_observation(task)


def test_variants_differ_in_what_is_shown_and_not_in_the_goal() -> None:
    world = load_world(DEFAULT_WORLD)
    one, two = (make_task(world, "bookshelf", variant=v) for v in (0, 1))
    assert one.id != two.id
    assert one.family == two.family
    assert one.data["goal"] == two.data["goal"]


def test_unknown_panels_come_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match="did you mean 'train'"):
        load_env("textcraft").panel("trian")


async def test_64_concurrent_starts_see_what_one_sees() -> None:
    env = load_env("textcraft")
    tasks = env.panel("test").tasks[:8]

    async def first(task_number: int) -> str:
        async with env.open(tasks[task_number % 8]) as episode:
            await asyncio.sleep(0)
            return (await episode.start()).text

    seen = await asyncio.gather(*(first(i) for i in range(64)))
    assert seen == [first_observation(tasks[i % 8]) for i in range(64)]


def test_first_observations_have_one_hash_under_every_hash_seed() -> None:
    hashes = set()
    for seed in range(10):
        done = subprocess.run(
            [sys.executable, "-m", "practicum", "tasks", "textcraft", "--panel", "all", "--hash"],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=True,
        )
        hashes.add(done.stdout.split()[0])
    assert len(hashes) == 1, hashes


def test_any_panel_can_be_had_in_a_renamed_world() -> None:
    env = load_env("textcraft")
    assert env.panel("test~1").tasks == env.panel("renamed").tasks
    train, other = env.panel("train"), env.panel("train~7")
    assert len(train) == len(other)
    words = {w for task in train for w in task.data["goal"].split("_")}
    assert not words & {w for task in other for w in task.data["goal"].split("_")}
    assert [t.difficulty for t in train] == [t.difficulty for t in other]
    assert not {t.family for t in other} & {t.family for t in env.panel("renamed")}
    exchanged = env.panel("train~w7")
    assert not {t.id for t in exchanged} & {t.id for t in env.panel("all")}
    # Whoever trains on a held-out goal under another name is told so by its family.
    assert [t.family for t in exchanged] == [t.family for t in train]
    assert not {t.family for t in exchanged} & {t.family for t in env.panel("test")}
    assert [t.family for t in env.panel("test~w7")] == [t.family for t in env.panel("test")]


def test_any_panel_can_be_had_in_another_arrangement() -> None:
    env = load_env("textcraft")
    train, other = env.panel("train"), env.panel("train~v3")
    assert [t.data["goal"] for t in other] == [t.data["goal"] for t in train]
    assert [t.family for t in other] == [t.family for t in train]
    assert other.tasks == tuple(env.variant(task, 3) for task in train)
    # A goal with few recipes has few orders of them.
    assert sum(a.id != b.id for a, b in zip(train, other, strict=True)) > 0.9 * len(train)
    # A held-out goal under another name keeps its family in every arrangement.
    assert [t.family for t in env.panel("renamed~v3")] == [t.family for t in env.panel("test")]
    for wrong in ("train~v", "train~v0", "train~v03", "train~v-1", "train~vx"):
        with pytest.raises(ConfigError, match="whole number from 1 on"):
            env.panel(wrong)
