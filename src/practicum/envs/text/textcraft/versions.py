"""Worlds by name: Minecraft 1.16.5, other Minecraft versions, and renamed copies of both.

- `minecraft-1.16.5`    the world of TextCraft
- `minecraft-1.19`      another version's recipes, from the optional `minecraft-data` package
- `minecraft-1.19+deep`  of several recipes for an item, only the one with the longest way
- `minecraft-1.16.5~7`  the same recipes with every word replaced by a made-up one, by seed 7
- `minecraft-1.16.5~w7` the same recipes with every word replaced by another of the world's words

A renamed world keeps the shape of every recipe and the words that names share (what was
`oak planks` and `oak stairs` still shares a word), so it can be played from the prompt
alone and cannot be played from memory.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from practicum.core.errors import ConfigError, unknown_name
from practicum.core.task import Task
from practicum.envs.text.textcraft.tasks import make_task
from practicum.envs.text.textcraft.world import (
    DEFAULT_WORLD,
    RawRecipe,
    World,
    build_world,
    load_default_world,
)

OTHER_VERSIONS = ("1.13", "1.14.4", "1.15.2", "1.17", "1.18", "1.19")
"""Versions with flat item names; `minecraft-data` has no recipes from 1.20 on."""

MAX_ALTERNATIVES = 3
"""Recipes kept per item: these files list every variant, which would drown a prompt."""

_ONSETS = tuple("b br d dr f fl g gr k kl l m n p pl qu r s sk sn t tr v vr z".split())
_VOWELS = ("a", "e", "i", "o", "u", "ai", "ou")
_CODAS = ("b", "d", "f", "g", "k", "l", "m", "n", "nd", "p", "r", "rn", "s", "st", "t", "x")


@lru_cache(maxsize=64)
def load_world(world_id: str) -> World:
    """Load a world by its name; an unknown name is a `ConfigError`."""
    base_id, tilde, seed = world_id.partition("~")
    if tilde:
        number = seed.removeprefix("w")
        # Written in one way only, as a world must not have two names.
        if not re.fullmatch("0|[1-9][0-9]{0,8}", number):
            raise ConfigError(
                f"world {world_id[:80]!r}: after '~' comes a whole number of up to nine digits "
                "(made-up words) or w and such a number (words exchanged)"
            )
        base = load_world(base_id)
        make_words = invent_words if number == seed else exchange_words
        return base.renamed(world_id, make_words(base, int(number)))
    if base_id.endswith("+deep"):
        return load_world(base_id.removesuffix("+deep")).without_shortcuts(world_id)
    if base_id == DEFAULT_WORLD:
        return load_default_world()
    if re.fullmatch("invented-(0|[1-9][0-9]{0,11})", base_id):
        from practicum.envs.text.textcraft.invented import make_world  # it needs this module

        return make_world(int(base_id.removeprefix("invented-")))
    version = base_id.removeprefix("minecraft-")
    if version not in OTHER_VERSIONS or version == base_id:
        known = [DEFAULT_WORLD, *(f"minecraft-{v}" for v in OTHER_VERSIONS)]
        raise unknown_name("TextCraft world", base_id, known)
    return build_world(base_id, _read_version(version))


def rename(task: Task, seed: str) -> Task:
    """The same goal in the world renamed by a seed.

    The family is that of the goal it was: reports can be laid side by side, and who trains on a
    held-out goal under another name is told so.
    """
    world = load_world(task.data["world"])
    renamed = load_world(f"{world.id}~{seed}")
    goal = task.data["goal"]
    # A renamed world keeps the order of its goals.
    there = make_task(renamed, renamed.goals[world.goals.index(goal)], split=task.split)
    return replace(there, family=task.family)


def invent_words(world: World, seed: int) -> dict[str, str]:
    """Give every word in the world's names a made-up one; equal for equal seeds."""
    words = _words(world)
    taken = set(words)
    invented: dict[str, str] = {}
    for word in words:
        attempt = 0
        while (new := _pseudo_word(seed, word, attempt)) in taken:
            attempt += 1
        taken.add(new)
        invented[word] = new
    return invented


def exchange_words(world: World, seed: int) -> dict[str, str]:
    """Give every word in the world's names the place of another one; equal for equal seeds."""
    words = _words(world)
    words.sort(key=lambda word: hashlib.sha256(f"exchange/{seed}/{word}".encode()).digest())
    return dict(zip(words, [*words[1:], words[0]], strict=True))


def _words(world: World) -> list[str]:
    keys = world.items | world.generics | world.generic_recipes.keys()
    return sorted({word for key in keys for word in key.split("_")})


def _pseudo_word(seed: int, word: str, attempt: int) -> str:
    digest = hashlib.sha256(f"{seed}/{word}/{attempt}".encode()).digest()
    syllables = [
        _ONSETS[digest[i] % len(_ONSETS)]
        + _VOWELS[digest[i + 1] % len(_VOWELS)]
        + (_CODAS[digest[i + 2] % len(_CODAS)] if i == 3 else "")
        for i in (0, 3)
    ]
    return "".join(syllables)


def _read_version(version: str) -> list[RawRecipe]:
    folder = _minecraft_data_dir() / "pc" / version
    items = {item["id"]: item["name"] for item in _read_json(folder / "items.json")}
    by_suffix: dict[str, set[str]] = {}
    for name in items.values():
        by_suffix.setdefault(_suffix(name), set()).add(name)
    table: Mapping[str, Sequence[Mapping[str, Any]]] = _read_json(folder / "recipes.json")
    raw_recipes: list[RawRecipe] = []
    for result_id in sorted(table, key=lambda key: items[int(key)]):
        output = items[int(result_id)]
        variants = [
            (recipe["result"]["count"], Counter(items[i] for i in _ingredient_ids(recipe)))
            for recipe in table[result_id]
        ]
        raw_recipes += list(_merge_variants(output, variants, by_suffix))[:MAX_ALTERNATIVES]
    return list(_without_cycles(_with_groups(raw_recipes)))


def _merge_variants(
    output: str,
    variants: Sequence[tuple[int, Counter[str]]],
    by_suffix: Mapping[str, set[str]],
) -> Iterator[RawRecipe]:
    """Fold `stick from oak planks, from birch planks, …` back into `stick from planks`.

    A slot becomes generic when all items that share its last word can fill it; otherwise
    its first variant stands for it, as in TextCraft.
    """
    similar: dict[tuple[int, tuple[tuple[str, int], ...]], list[Counter[str]]] = {}
    for count, inputs in variants:
        slots = tuple(sorted((_suffix(name), n) for name, n in inputs.items()))
        similar.setdefault((count, slots), []).append(inputs)
    for (count, _), members in similar.items():
        merged: list[tuple[str, int, bool]] = []
        for name, n in members[0].items():
            suffix = _suffix(name)
            fillers = {other for inputs in members for other in inputs if _suffix(other) == suffix}
            is_generic = len(fillers) > 1 and fillers == by_suffix[suffix]
            merged.append((suffix if is_generic else name, n, is_generic))
        yield RawRecipe(output, count, tuple(merged), group=None)


def _with_groups(raw_recipes: Sequence[RawRecipe]) -> Iterator[RawRecipe]:
    """Name the generic each output belongs to, for generics that some recipe asks for."""
    asked = {key for raw in raw_recipes for key, _, is_generic in raw.inputs if is_generic}
    for raw in raw_recipes:
        suffix = _suffix(raw.output)
        is_member = suffix in asked and suffix != raw.output
        yield replace(raw, group=suffix) if is_member else raw


def _without_cycles(raw_recipes: Iterable[RawRecipe]) -> Iterator[RawRecipe]:
    """Leave out each recipe whose output is needed to make its own ingredients."""
    needs: dict[str, set[str]] = {}
    for raw in raw_recipes:
        inputs = {key for key, _, _ in raw.inputs}
        if raw.output in _reachable(inputs, needs):
            continue
        needs.setdefault(raw.output, set()).update(inputs)
        if raw.group is not None:
            needs.setdefault(raw.group, set()).add(raw.output)
        yield raw


def _reachable(start: Iterable[str], needs: Mapping[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    waiting = list(start)
    while waiting:
        key = waiting.pop()
        if key not in seen:
            seen.add(key)
            waiting.extend(needs.get(key, ()))
    return seen


def _suffix(name: str) -> str:
    return name.rsplit("_", 1)[-1]


def _ingredient_ids(recipe: Mapping[str, Any]) -> list[int]:
    if "ingredients" in recipe:
        return [i for i in recipe["ingredients"] if i is not None]
    return [i for row in recipe["inShape"] for i in row if i is not None]


def _minecraft_data_dir() -> Path:
    spec = find_spec("minecraft_data")
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(
            "recipes of other Minecraft versions are not installed: pip install 'practicum[worlds]'"
        )
    return Path(spec.submodule_search_locations[0]) / "data" / "data"


def _read_json(path: Path) -> Any:
    return json.loads(path.read_bytes())
