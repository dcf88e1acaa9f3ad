"""Programmed TextCraft players. They see what a model sees: the first message and replies.

The expert plans from the listed commands and from what it holds, says why in its thought,
and returns the first action of the plan. It keeps no state: the inventory is replayed
from the history, so it can take over any half-played game.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from random import Random

from practicum.core.agent import Situation
from practicum.core.env import Decision
from practicum.core.message import Action

Inventory = dict[str, int]

_LINE = re.compile(r"craft (\d+) (.+?) using (.+)")
_COUNTED = re.compile(r"(\d+) (.+)")
_GOAL = re.compile(r"Goal: craft (.+)\.")
_TOO_FEW = "Could not find enough items"
"""What the game says to a craft that would work with more in hand."""
_RANDOM_GET_COUNTS = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class Listed:
    """A crafting command as the prompt lists it."""

    output: str
    count: int
    inputs: tuple[tuple[str, int], ...]

    @property
    def line(self) -> str:
        """The command in the game's own words."""
        return f"craft {self.count} {self.output} using {join(self.inputs)}"


@dataclass(frozen=True)
class Puzzle:
    """The first message, read."""

    goal: str
    recipes: Mapping[str, tuple[Listed, ...]]
    fetchable: tuple[str, ...]

    def members(self, kind: str) -> list[str]:
        """Craftable items that a kind such as `planks` stands for; none for a plain item.

        The prompt does not say which ingredients are kinds. A kind has several listed
        members that end in its name, and none of them is made from the kind itself, as
        `coarse dirt` is from `dirt`.
        """
        if kind in self.recipes:
            return []
        ending = f" {kind}"
        named = [name for name in self.recipes if name.endswith(ending)]
        if any(kind == key for name in named for r in self.recipes[name] for key, _ in r.inputs):
            return []
        return named if len(named) > 1 else []


@dataclass
class Plan:
    """What to fetch, then what to craft, in order."""

    fetch: dict[str, int] = field(default_factory=dict)
    crafts: list[Listed] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    def first_action(self) -> str:
        """What to do now."""
        if self.fetch:
            name, count = next(iter(self.fetch.items()))
            return f"get {count} {name}"
        return self.crafts[0].line


def play_expertly(situation: Situation) -> Decision:
    """Follow a plan that reaches the goal; after a refusal, look at what is there first."""
    return look_after_refusal(situation) or follow_plan(situation)


def look_after_refusal(situation: Situation) -> Decision | None:
    """What the careful do when the last action was turned down; nothing otherwise."""
    if situation.history and situation.history[-1].is_refused:
        return Decision(Action("inventory"), "That did not work. I look at what I have.")
    return None


def follow_plan(situation: Situation) -> Decision:
    """Take the next action of a plan from here, whatever happened before."""
    puzzle = read_puzzle(first_text(situation))
    inventory, refused = replay(situation)
    plan = make_plan(puzzle, inventory, refused)
    return Decision(Action(plan.first_action()), _thought(inventory, plan))


def play_carelessly(situation: Situation) -> Decision:
    """Think as the expert does and leave something out: the world refuses what follows.

    Either a step is taken for done, or two crafts for one, or something is fetched that must be
    crafted. Where the plan leaves no room for any of that, its next action is taken.
    """
    puzzle = read_puzzle(first_text(situation))
    inventory, refused = replay(situation)
    plan = make_plan(puzzle, inventory, refused)
    as_planned = _thought(inventory, plan)
    mistakes: list[Decision] = []
    believed = dict(inventory)
    for name, count in plan.fetch.items():
        believed[name] = believed.get(name, 0) + count
    for number, (craft, after) in enumerate(pairwise(plan.crafts)):
        carry_out(craft, believed)
        if after != craft:
            rest = make_plan(puzzle, held_of(believed), refused)
            mistakes.append(Decision(Action(after.line), _thought(held_of(believed), rest)))
            mistakes.append(Decision(Action(f"get {craft.count} {craft.output}"), as_planned))
        elif number == 0 and not plan.fetch:
            doubled = tuple((name, 2 * count) for name, count in craft.inputs)
            twice = Listed(craft.output, 2 * craft.count, doubled)
            mistakes.append(Decision(Action(twice.line), as_planned))
    if not mistakes:
        return Decision(Action(plan.first_action()), as_planned)
    return Random(situation.seed).choice(mistakes)


def count_remaining(situation: Situation) -> int:
    """How many actions the plan from here has."""
    inventory, refused = replay(situation)
    plan = make_plan(read_puzzle(first_text(situation)), inventory, refused)
    return len(plan.fetch) + len(plan.crafts)


def play_naively(situation: Situation) -> Decision:
    """Fetch what the goal's own recipe names and craft it: never crafts anything else."""
    puzzle = read_puzzle(first_text(situation))
    inventory, refused = replay(situation)
    recipe = puzzle.recipes[puzzle.goal][0]
    for name, count in recipe.inputs:
        missing = count - inventory.get(name, 0)
        action = f"get {missing} {name}"
        if missing > 0 and action not in refused:
            return Decision(Action(action), f"I need {count} {name}.")
    return Decision(Action(recipe.line), f"I want {recipe.output}.")


def play_randomly(situation: Situation) -> Decision:
    """Draw one of the listed commands, a fetch or a look at the inventory."""
    rng = Random(situation.seed)
    puzzle = read_puzzle(first_text(situation))
    choice = rng.random()
    if choice < 0.1:
        return Decision(Action("inventory"))
    if choice < 0.6:
        name = rng.choice(puzzle.fetchable)
        return Decision(Action(f"get {rng.choice(_RANDOM_GET_COUNTS)} {name}"))
    recipe = rng.choice([r for listed in puzzle.recipes.values() for r in listed])
    return Decision(Action(recipe.line))


@lru_cache(maxsize=1024)
def read_puzzle(first_text: str) -> Puzzle:
    """Read goal and commands from the first message."""
    goal = _GOAL.search(first_text)
    assert goal is not None, "the first message names no goal"
    recipes: dict[str, list[Listed]] = {}
    for line in first_text.splitlines():
        if match := _LINE.fullmatch(line):
            listed = Listed(match[2], int(match[1]), tuple(_read_inputs(match[3])))
            recipes.setdefault(listed.output, []).append(listed)
    named = {name for made in recipes.values() for recipe in made for name, _ in recipe.inputs}
    puzzle = Puzzle(goal[1], {key: tuple(made) for key, made in recipes.items()}, ())
    fetchable = sorted(n for n in named - recipes.keys() if not puzzle.members(n))
    return Puzzle(puzzle.goal, puzzle.recipes, tuple(fetchable))


def replay(situation: Situation) -> tuple[Inventory, frozenset[str]]:
    """Work out what is held, and which actions never work, from the turns so far."""
    inventory: Inventory = {}
    refused = set()
    replies = [*(turn.observation for turn in situation.history), situation.observation][1:]
    for turn, reply in zip(situation.history, replies, strict=True):
        if turn.action is None:
            continue
        text = turn.action.text
        if turn.is_refused:
            if not reply.text.startswith(_TOO_FEW):
                refused.add(text)
        elif match := re.match(r"get (\d+) (.+)", text):
            inventory[match[2]] = inventory.get(match[2], 0) + int(match[1])
        elif match := _LINE.match(text):
            carry_out(Listed(match[2], int(match[1]), tuple(_read_inputs(match[3]))), inventory)
    return held_of(inventory), frozenset(refused)


def carry_out(craft: Listed, inventory: Inventory) -> None:
    """Take what the craft uses, put in what it makes."""
    for name, count in craft.inputs:
        inventory[name] -= count
    inventory[craft.output] = inventory.get(craft.output, 0) + craft.count


def held_of(inventory: Inventory) -> Inventory:
    """Without what is used up."""
    return {name: count for name, count in inventory.items() if count > 0}


def make_plan(puzzle: Puzzle, inventory: Inventory, refused: frozenset[str]) -> Plan:
    """Plan the crafting of the goal from what is held, cheapest recipes first."""
    planner = Planner(puzzle, refused)
    plan = Plan()
    stock = dict(inventory)
    stock.pop(puzzle.goal, None)
    planner.make(puzzle.goal, 1, stock, plan)
    return plan


class Planner:
    """Chooses among recipes and items of a kind by what they cost."""

    def __init__(self, puzzle: Puzzle, refused: frozenset[str]) -> None:
        self._puzzle = puzzle
        self._refused = refused
        self._costs: dict[tuple[str, int], int] = {}

    def make(self, name: str, count: int, stock: Inventory, plan: Plan) -> None:
        """Add to the plan what brings `count` of an item into the stock; take them out."""
        held = min(stock.get(name, 0), count)
        missing = count - held
        if held:
            stock[name] -= held
        if missing == 0:
            return
        if name not in self._puzzle.recipes:
            plan.fetch[name] = plan.fetch.get(name, 0) + missing
            return
        recipe = self.recipe(name, missing)
        times = -(-missing // recipe.count)
        inputs = [(self.member(key, n * times, stock), n) for key, n in recipe.inputs]
        concrete = Listed(recipe.output, recipe.count, tuple(inputs))
        total = tuple((key, n * times) for key, n in inputs)
        plan.reasons.append(f"{times * recipe.count} {name} needs {join(total)}")
        for key, n in total:
            self.make(key, n, stock, plan)
        plan.crafts += [concrete] * times
        stock[name] = stock.get(name, 0) + times * recipe.count - missing

    def recipe(self, name: str, missing: int) -> Listed:
        """The cheapest way to make so many; one that was refused only if there is no other."""
        recipes = self._puzzle.recipes[name]
        usable = [r for r in recipes if r.line not in self._refused] or list(recipes)
        return min(usable, key=lambda r: self._recipe_cost(r, missing))

    def member(self, key: str, count: int, stock: Inventory) -> str:
        """Pick an item for a kind: one that is held, else the cheapest to make."""
        members = [m for m in self._puzzle.members(key) if not self._was_refused(m, key)]
        if not members:
            return key
        return min(members, key=lambda m: (stock.get(m, 0) < count, self._cost(m, count), m))

    def _was_refused(self, member: str, kind: str) -> bool:
        """Whether a craft that put this member in the place of the kind was turned down."""
        return any(
            f" {member}" in action and action.startswith("craft ") and f" {kind}" in action
            for action in self._refused
        )

    def _recipe_cost(self, recipe: Listed, count: int) -> int:
        times = -(-count // recipe.count)
        return times + sum(self._kind_cost(key, n * times) for key, n in recipe.inputs)

    def _kind_cost(self, key: str, count: int) -> int:
        members = self._puzzle.members(key)
        return min((self._cost(m, count) for m in members), default=self._cost(key, count))

    def _cost(self, name: str, count: int) -> int:
        """About how many actions it takes, held items and shared parts left aside."""
        known = self._costs.get((name, count))
        if known is None:
            self._costs[name, count] = 10**6  # a circle among the listed commands is no way
            known = min(
                (self._recipe_cost(r, count) for r in self._puzzle.recipes.get(name, ())),
                default=1,
            )
            self._costs[name, count] = known
        return known


def tell(inventory: Inventory) -> str:
    """What is held, in a sentence."""
    return f"I have {join(tuple(inventory.items())) if inventory else 'nothing'}."


def _thought(inventory: Inventory, plan: Plan) -> str:
    return f"{tell(inventory)} {'; '.join(plan.reasons)}."


def first_text(situation: Situation) -> str:
    """The message with the commands and the goal."""
    first = situation.history[0].observation if situation.history else situation.observation
    return first.text


def _read_inputs(text: str) -> list[tuple[str, int]]:
    inputs = []
    for part in text.split(", "):
        match = _COUNTED.fullmatch(part)
        assert match is not None, f"cannot read ingredient {part!r}"
        inputs.append((match[2], int(match[1])))
    return inputs


def join(counted: Sequence[tuple[str, int]]) -> str:
    """`2 stick, 1 flint`."""
    return ", ".join(f"{count} {name}" for name, count in counted)
