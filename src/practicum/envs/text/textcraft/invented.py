"""Random crafting worlds: the shape of TextCraft, none of its items.

A world has fetched things, palettes such as the dyes, kinds such as "planks" with several
members, families made of those, and single things above them. Names are Minecraft's words
put together anew, or invented words. A name that any real TextCraft world uses is refused,
so no goal and no recipe of the benchmark can be in one. Its tasks are in `invented_tasks`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random

from practicum.envs.text.textcraft.versions import invent_words, load_world
from practicum.envs.text.textcraft.world import DEFAULT_WORLD, RawRecipe, World, build_world

RENAMED_WORLD = f"{DEFAULT_WORLD}~1"
"""That of the renamed panel."""
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
_NAME_WEIGHTS = (48, 42, 10)
"""Of names of one, two and three words."""


PREFIX = "invented-"
"""Of the worlds' names; the seed follows."""
MAX_DEPTH = 4
INVENTED_SHARE = 0.1
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

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._taken: set[str] = set()
        invented = invented_words(FIRST_WORD_SEED + rng.randrange(NUM_WORD_SEEDS))
        words: Sequence[str] = real_words()
        if rng.random() < INVENTED_SHARE:
            words = invented
        # Names share words, so that they must be read to the end.
        self._words = rng.sample(words, rng.randint(25, 70))
        # Most real words that stand alone are real items; the others and a few invented ones
        # do it here.
        lone = [word for word in words if word not in forbidden_names()]
        self._lone = [*rng.sample(lone, 30), *rng.sample(invented, 6)]

    def words(self, max_words: int) -> str:
        """A name of up to so many words."""
        sizes = range(1, max_words + 1)
        size = self._rng.choices(sizes, _NAME_WEIGHTS[:max_words])[0]
        if size == 1:
            return self._rng.choice(self._lone)
        return "_".join(self._rng.sample(self._words, size))

    def word(self) -> str:
        """One word that is part of a name."""
        return self._rng.choice(self._words)

    def take(self, name: str) -> str | None:
        """Claim a name; None if it is taken, real, or repeats a word."""
        words = name.split("_")
        if name in self._taken or name in forbidden_names() or len(set(words)) < len(words):
            return None
        self._taken.add(name)
        return name

    def new(self, max_words: int = 3) -> str:
        """Claim some name."""
        for _ in range(1000):
            if name := self.take(self.words(max_words)):
                return name
        raise AssertionError("a world ran out of names: make its word list longer")


@dataclass(frozen=True, slots=True)
class _Thing:
    """Something a recipe can ask for."""

    key: str
    depth: int
    """Crafting levels below it; 0 is fetched."""
    is_kind: bool = False


Family = dict[str, _Thing]
"""By material: `oak` -> `oak planks`."""
Asked = tuple[_Thing, int]


class _Builder:
    """Puts one world's recipes together, each part made of those before it."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._names = _Namer(rng)
        self._materials = self._make_materials(rng.randint(4, 12))
        self._things: list[_Thing] = []
        self._families: list[Family] = []
        self.recipes: list[RawRecipe] = []

    def _make_materials(self, count: int) -> list[str]:
        """What families differ in; some names hold others, as `dark oak` does `oak`."""
        found = [self._names.word()]
        while len(found) < count:
            word = self._names.word()
            other = self._rng.choice((*found, self._names.word()))
            name = f"{word}_{other}" if self._rng.random() < 0.3 and word != other else word
            if name not in found:
                found.append(name)
        return found

    def build(self) -> None:
        """Fill the world from what is fetched upwards."""
        rng = self._rng
        for _ in range(rng.randint(2, 5)):
            self._fetched(self._names.new())
        parts = (
            [self._add_palette] * rng.choice((0, 1, 1))
            + [self._add_kind] * rng.choice((0, 1, 2, 2))
            + [self._add_dyed] * rng.choice((0, 1, 2))
            + [self._add_made_of_family] * rng.randint(0, 3)
            + [self._add_tools] * rng.randint(0, 5)
            + [self._add_variant] * rng.randint(0, 6)
            + [self._add_single] * rng.randint(6, 20)
        )
        # Mostly from simple to involved, as the list is, but not always.
        order = sorted(range(len(parts)), key=lambda i: i + rng.uniform(0, 8))
        for i in order:
            parts[i]()

    # -- families ----------------------------------------------------------------------

    def _add_palette(self) -> None:
        """Things such as dyes: each made of something unlike it, or of two others."""
        noun = self._names.word()
        family: Family = {}
        for material in self._some_materials():
            others = [t for t in family.values() if t.depth < MAX_DEPTH]
            made: _Thing | None = None
            if output := self._names.take(f"{material}_{noun}"):
                for _ in range(self._rng.choices((1, 2, 3, 4), (60, 25, 10, 5))[0]):
                    if len(others) > 1 and self._rng.random() < 0.3:
                        mixed = self._rng.sample(others, 2)
                        made = self._put(output, len(mixed), [(t, 1) for t in mixed]) or made
                    else:
                        raw = self._fetched(self._names.new())
                        made = self._put(output, self._rng.choice((1, 1, 2)), [(raw, 1)]) or made
            if made:
                family[material] = made
        self._keep_family(family)

    def _add_kind(self) -> None:
        """A kind such as `planks`: members that are made alike, each of its own material."""
        kind = self._names.new(2)
        style, source = self._rng.random(), self._names.word()
        count, number = self._output_count(), self._input_count()
        family: Family = {}
        for material in self._some_materials():
            name = f"{material}_{source}" if style < 0.6 else self._names.words(2)
            raw = self._names.take(name)
            member = raw and self._names.take(f"{material}_{kind}")
            if raw and member:
                inputs: list[Asked] = [(self._fetched(raw), number)]
                made = self._put(member, count, inputs, kind)
                if made:
                    family[material] = made
        self._keep_family(family)
        self._offer_kind(kind, family)

    def _add_dyed(self) -> None:
        """Things such as wool or stained glass: a plain one and a member of a palette."""
        if not self._families:
            return
        palette, rng = self._rng.choice(self._families), self._rng
        is_kind = rng.random() < 0.5
        noun = self._names.new(2) if is_kind else self._noun()
        # `white wool`, or `glass` for `stained glass`, or something named otherwise.
        plain = f"{self._names.word()}_{noun}" if is_kind else noun.split("_")[-1]
        taken = self._names.take(plain) if rng.random() < 0.7 else None
        base = self._fetched(taken) if taken else self._pick(2)
        if taken and rng.random() < 0.4:
            base = self._put(taken, 1, [(self._pick(1), self._input_count())]) or base
        count, number = self._output_count(), self._input_count()
        inputs = [(base, number), *self._others()]
        place = rng.randint(0, len(inputs))
        family: Family = {}
        for material, dye in palette.items():
            if output := self._names.take(f"{material}_{noun}"):
                asked = [*inputs[:place], (dye, 1), *inputs[place:]]
                if made := self._put(output, count, asked, noun if is_kind else None):
                    family[material] = made
        self._keep_family(family)
        if is_kind:
            self._offer_kind(noun, family)

    def _add_made_of_family(self) -> None:
        """Things made of their own material's member: `oak stairs` of `oak planks`."""
        if not self._families:
            return
        parts = self._rng.choice(self._families)
        noun, is_long = self._noun(), self._rng.random() < 0.3
        count, number, others = self._output_count(), self._input_count(), self._others()
        dyes = self._rng.choice(self._families) if self._rng.random() < 0.3 else {}
        plain = self._pick(2)
        family: Family = {}
        for material, part in parts.items():
            name = f"{part.key}_{noun}" if is_long else f"{material}_{noun}"
            if output := self._names.take(name):
                made = self._put(output, count, [(part, number), *others])
                if material in dyes and made:  # a second way to the same thing
                    made = self._put(output, count, [(plain, number), (dyes[material], 1)]) or made
                if made:
                    family[material] = made
        self._keep_family(family)

    def _add_tools(self) -> None:
        """Things made alike of unlike stuff: an axe of iron, of stone, of any planks."""
        noun, count, number = self._noun(), self._output_count(), self._input_count()
        others = self._others()
        for _ in range(self._rng.randint(2, 6)):
            stuff = self._pick(2)
            own = self._rng.random() < 0.6
            word = stuff.key.split("_")[0] if own else self._names.word()
            if output := self._names.take(f"{word}_{noun}"):
                self._put(output, count, [(stuff, number), *others])

    # -- single things -----------------------------------------------------------------

    def _add_variant(self) -> None:
        """Something whose name holds that of what it is made of: a sticky piston of a piston."""
        base = self._pick(MAX_DEPTH - 1)
        word = self._names.word()
        name = f"{word}_{base.key}" if self._rng.random() < 0.7 else f"{base.key}_{word}"
        if not base.is_kind and (output := self._names.take(name)):
            if self._rng.random() < 0.2:  # a block of nine
                self._put(output, 1, [(base, 9)])
            else:
                inputs = [(base, self._input_count()), *self._others()]
                self._put(output, self._output_count(), inputs)

    def _add_single(self) -> None:
        """Something made of anything, now and then in two ways."""
        output = self._names.new()
        ways = self._rng.choices((1, 2, 3), (88, 9, 3))[0]
        for _ in range(ways):
            size = self._rng.choices(_NUM_INPUTS, _NUM_INPUT_WEIGHTS)[0]
            depth = self._rng.choices(range(MAX_DEPTH), (4, 4, 3, 2))[0]
            picked = [self._pick(depth), *(self._pick(2) for _ in range(size - 1))]
            self._put(output, self._output_count(), [(t, self._input_count()) for t in picked])

    # -- shared ------------------------------------------------------------------------

    def _fetched(self, key: str) -> _Thing:
        thing = _Thing(key, 0)
        self._things.append(thing)
        return thing

    def _put(
        self, output: str, count: int, inputs: Sequence[Asked], group: str | None = None
    ) -> _Thing | None:
        """Add a recipe; None where it would go too deep or ask for its own output."""
        asked = {thing.key: (thing, number) for thing, number in inputs}
        made = _Thing(output, 1 + max(thing.depth for thing, _ in asked.values()))
        if made.depth > MAX_DEPTH or output in asked:
            return None
        raw = tuple((thing.key, number, thing.is_kind) for thing, number in asked.values())
        self.recipes.append(RawRecipe(output, count, raw, group))
        self._things.append(made)
        return made

    def _pick(self, max_depth: int) -> _Thing:
        """Something at most so deep, as deep as that half of the time."""
        fitting = [thing for thing in self._things if thing.depth <= max_depth]
        kinds = [thing for thing in fitting if thing.is_kind]
        if kinds and self._rng.random() < 0.2:
            return self._rng.choice(kinds)
        deepest = max(thing.depth for thing in fitting)
        if self._rng.random() < 0.5:
            fitting = [thing for thing in fitting if thing.depth == deepest]
        # What came first is asked for most, as sticks are: so there are other uses to list.
        return fitting[int(len(fitting) * self._rng.random() ** 2)]

    def _others(self) -> list[Asked]:
        """What all members of a family need besides their own part."""
        size = self._rng.choices((0, 1, 2), (55, 35, 10))[0]
        return [(self._pick(1), self._input_count()) for _ in range(size)]

    def _noun(self) -> str:
        """What the members of a family are: `stairs`, `pressure plate`."""
        word = self._names.word()
        return word if self._rng.random() < 0.7 else f"{word}_{self._names.word()}"

    def _some_materials(self) -> list[str]:
        return self._materials[: self._rng.randint(3, len(self._materials))]

    def _keep_family(self, family: Family) -> None:
        if len(family) > 1:
            self._families.append(family)

    def _offer_kind(self, kind: str, family: Family) -> None:
        """Let recipes ask for any member."""
        if len(family) > 1:
            depth = min(thing.depth for thing in family.values())
            self._things.append(_Thing(kind, depth, is_kind=True))

    def _input_count(self) -> int:
        return self._rng.choices(_INPUT_COUNTS, _INPUT_WEIGHTS)[0]

    def _output_count(self) -> int:
        return self._rng.choices(_OUTPUT_COUNTS, _OUTPUT_WEIGHTS)[0]


@lru_cache(maxsize=1024)
def make_world(seed: int) -> World:
    """Make a world; equal for equal seeds."""
    builder = _Builder(Random(f"world/{seed}"))
    builder.build()
    return build_world(f"{PREFIX}{seed}", builder.recipes)


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
