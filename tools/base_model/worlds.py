"""Random crafting worlds for the base model: the shape of TextCraft, none of its items.

A world has fetched things, kinds such as "planks" with several members, and layers of
crafted things above them. Names are Minecraft's words put together anew, or invented words.
A name that any real TextCraft world uses is refused, so no goal and no recipe of the
benchmark can be in the corpus. What is done in these worlds is left to `corpus`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random

from practicum.envs.text.textcraft.freeze import RENAMED_WORLD
from practicum.envs.text.textcraft.versions import invent_words, load_world
from practicum.envs.text.textcraft.world import DEFAULT_WORLD, RawRecipe, World, build_world

FIRST_WORD_SEED = 1000
"""Invented words are drawn from here on; the renamed panel's world has seed 1."""
NUM_WORD_SEEDS = 64

# As often as in the real recipes, so that counting is practised on what will be asked.
_INPUT_COUNTS = (1, 2, 3, 4, 5, 6, 7, 8, 9)
_INPUT_WEIGHTS = (384, 111, 111, 114, 17, 123, 11, 83, 19)
_OUTPUT_COUNTS = (1, 2, 3, 4, 6, 8, 16)
_OUTPUT_WEIGHTS = (301, 27, 65, 62, 59, 40, 19)
_NUM_INPUTS = (1, 2, 3, 4, 5)
_NUM_INPUT_WEIGHTS = (45, 40, 12, 2, 1)

Input = tuple[str, int, bool]


@dataclass(frozen=True, slots=True)
class Shape:
    """How large and how deep a world may be."""

    max_depth: int = 4
    invented_share: float = 0.25
    """Of worlds: named with invented words only."""


@lru_cache(maxsize=1)
def real_words() -> tuple[str, ...]:
    """Every word in the names of Minecraft's items and kinds."""
    world = load_world(DEFAULT_WORLD)
    keys = world.items | world.generics | world.generic_recipes.keys()
    return tuple(sorted({word for key in keys for word in key.split("_")}))


@lru_cache(maxsize=1)
def forbidden_names() -> frozenset[str]:
    """Every name of the benchmark's worlds; none may be in the corpus."""
    worlds = [load_world(DEFAULT_WORLD), load_world(RENAMED_WORLD)]
    return frozenset(
        key for w in worlds for keys in (w.items, w.generics, w.generic_recipes) for key in keys
    )


@lru_cache(maxsize=NUM_WORD_SEEDS)
def invented_words(seed: int) -> tuple[str, ...]:
    """Made-up words, as many as Minecraft has; equal for equal seeds."""
    assert seed >= FIRST_WORD_SEED
    return tuple(invent_words(load_world(DEFAULT_WORLD), seed).values())


class _Namer:
    """Gives out names that are new in this world and in no real one."""

    def __init__(self, rng: Random, invented_share: float) -> None:
        self._rng = rng
        self._taken: set[str] = set()
        self._endings: set[str] = set()
        invented = invented_words(FIRST_WORD_SEED + rng.randrange(NUM_WORD_SEEDS))
        if rng.random() < invented_share:
            self._words: Sequence[str] = invented
        else:
            # Single real words are mostly real items: a few invented ones stand for those.
            self._words = (*real_words(), *rng.sample(invented, 30))
        # Names share words, so that they must be read to the end.
        self._words = rng.sample(self._words, rng.randint(20, 60))

    def words(self, max_words: int) -> str:
        """A name of up to so many words."""
        sizes = range(1, max_words + 1)
        size = self._rng.choices(sizes, (40, 45, 15)[:max_words])[0]
        return "_".join(self._rng.sample(self._words, size))

    def take(self, name: str, kind: str | None = None) -> str | None:
        """Claim a name; None if it is taken, real, repeats a word, or seems of another kind."""
        words = name.split("_")
        # Readers take several things that end in another's name for members of a kind.
        endings = {"_".join(words[i:]) for i in range(len(words))}
        if (
            name in self._endings
            or name in forbidden_names()
            or len(set(words)) < len(words)
            or self._taken & (endings - {kind})
        ):
            return None
        self._taken.add(name)
        self._endings |= endings
        return name

    def new(self, max_words: int = 3) -> str:
        """Claim some name."""
        for _ in range(1000):
            if name := self.take(self.words(max_words)):
                return name
        raise AssertionError("a world ran out of names: make its word list longer")


class _Builder:
    """Puts one world's recipes together, layer by layer."""

    def __init__(self, rng: Random, shape: Shape) -> None:
        self._rng = rng
        self._names = _Namer(rng, shape.invented_share)
        self._materials = [self._names.words(2) for _ in range(rng.randint(3, 8))]
        self._layers: list[list[Input]] = [[]]
        self.recipes: list[RawRecipe] = []
        self._max_depth = shape.max_depth

    def build(self) -> None:
        """Fill the world from what is fetched upwards."""
        rng = self._rng
        self._layers[0] = [(self._names.new(), 1, False) for _ in range(rng.randint(2, 5))]
        depths = range(1, self._max_depth + 1)
        for depth in range(1, rng.choices(depths, (1, 4, 4, 2)[: self._max_depth])[0] + 1):
            self._layers.append([])
            if depth == 1 and rng.random() < 0.5:
                self._add_kind()
            if rng.random() < 0.6:
                self._add_family(depth)
            for _ in range(rng.randint(3, 9)):
                self._add_recipe(self._names.new(), depth)

    def _add_kind(self) -> None:
        """A kind such as `planks`: members that are made alike, each of its own material."""
        kind = self._names.new(2)
        source = self._names.words(1)
        count, number = self._output_count(), self._input_count()
        members = 0
        for material in self._materials:
            member = self._names.take(f"{material}_{kind}", kind)
            raw = member and self._names.take(f"{material}_{source}")
            if member and raw:
                self._layers[0].append((raw, 1, False))
                self.recipes.append(RawRecipe(member, count, ((raw, number, False),), kind))
                self._layers[1].append((member, 1, False))
                members += 1
        if members > 1:
            # Asked for as often as planks are.
            self._layers[1] += [(kind, 1, True)] * 3

    def _add_family(self, depth: int) -> None:
        """Things made alike from a part of their own material: `oak stairs` of `oak planks`."""
        thing, part = self._names.words(2), self._names.words(1)
        count, number, others = self._output_count(), self._input_count(), self._inputs(depth)[1:]
        for material in self._materials[: self._rng.randint(2, len(self._materials))]:
            output = self._names.take(f"{material}_{thing}")
            own = output and self._names.take(f"{material}_{part}")
            if output and own:
                self._layers[0].append((own, 1, False))
                self._put(output, count, ((own, number, False), *others), depth)

    def _add_recipe(self, output: str, depth: int) -> None:
        self._put(output, self._output_count(), self._inputs(depth), depth)
        if self._rng.random() < 0.1:
            self._put(output, self._output_count(), self._inputs(depth), depth)

    def _put(self, output: str, count: int, inputs: tuple[Input, ...], depth: int) -> None:
        if output in {key for key, _, _ in inputs}:
            return
        self.recipes.append(RawRecipe(output, count, inputs, None))
        self._layers[depth].append((output, 1, False))

    def _inputs(self, depth: int) -> tuple[Input, ...]:
        """Ingredients, the first of them from the layer below."""
        rng = self._rng
        below = [item for layer in self._layers[:depth] for item in layer]
        size = rng.choices(_NUM_INPUTS, _NUM_INPUT_WEIGHTS)[0]
        picked = [rng.choice(self._layers[depth - 1] or below)]
        picked += [rng.choice(below) for _ in range(size - 1)]
        chosen = {key: is_kind for key, _, is_kind in picked}
        return tuple((key, self._input_count(), is_kind) for key, is_kind in chosen.items())

    def _input_count(self) -> int:
        return self._rng.choices(_INPUT_COUNTS, _INPUT_WEIGHTS)[0]

    def _output_count(self) -> int:
        return self._rng.choices(_OUTPUT_COUNTS, _OUTPUT_WEIGHTS)[0]


def make_world(seed: int, shape: Shape) -> World:
    """Make a world; equal for equal seeds and shapes."""
    builder = _Builder(Random(f"world/{seed}"), shape)
    builder.build()
    return build_world(f"invented-{seed}", builder.recipes)


def check_apart(world: World) -> None:
    """Refuse a world that shares a name or a recipe with the benchmark."""
    shared = (world.items | world.generics | world.recipes.keys()) & forbidden_names()
    assert not shared, f"world {world.id} uses real names: {sorted(shared)[:3]}"
    lines = {r.line for made in world.recipes.values() for r in made}
    assert not lines & _real_lines(), f"world {world.id} holds a real recipe"


@lru_cache(maxsize=1)
def _real_lines() -> frozenset[str]:
    recipes = load_world(DEFAULT_WORLD).recipes.values()
    return frozenset(recipe.line for made in recipes for recipe in made)
