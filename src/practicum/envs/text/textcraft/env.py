"""TextCraft's rules, answer for answer those of AgentGym's server.

The player fetches what cannot be crafted (`get 2 oak logs`), crafts with listed recipes
(`craft 4 oak planks using 1 oak logs`) and looks at the `inventory`. Only crafting the
goal pays, and it ends the episode. Wording, prefix matching and the exact-count rule
follow the original, so numbers stay comparable; where the original crashes (a number of
thousands of digits, one ingredient listed twice) the action is refused instead.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from practicum.core.agent import Situation
from practicum.core.commands import Command
from practicum.core.env import Script, StepResult
from practicum.core.errors import ConfigError
from practicum.core.message import Action, Observation
from practicum.core.task import Panel, Task
from practicum.envs.text.textcraft import expert, stepwise, tasks
from practicum.envs.text.textcraft.invented_tasks import invented_panel
from practicum.envs.text.textcraft.versions import load_world, rename
from practicum.envs.text.textcraft.world import Recipe, World, shown, to_key

RULES = """\
You are playing TextCraft, a crafting game. The first message lists crafting commands and \
names a goal item. Craft the goal.

- get N ITEM fetches N of an item. Only items that no crafting command makes can be fetched.
- craft N ITEM using N1 ITEM1, N2 ITEM2, ... crafts with a listed command, once. Every \
ingredient must be in your inventory, in exactly the listed number. Where a command says \
only "planks" or another kind of item, name one item of that kind, such as "oak planks".
- inventory shows what you carry.

Crafting needs intermediate items first; craft those the same way."""

COMMANDS = (
    Command("get", "get {count:int} {item}", "fetch items that cannot be crafted"),
    Command(
        "craft",
        "craft {count:int} {item} using {ingredients}",
        'craft once with a listed command; ingredients as "2 oak planks, 1 stick"',
    ),
    Command("inventory", "inventory", "show what you carry"),
)

MAX_TURNS = 50
"""Enough for every goal: the longest expert game takes 48."""

_CRAFT = re.compile(r"craft (?:([0-9]+) )?(.*) using (.*)")
_GET = re.compile(r"get ([0-9]+) (.*)")
_COUNTED = re.compile(r"([0-9]+) (.*)")
_MAX_COUNT_DIGITS = 9


class _Refused(Exception):  # noqa: N818 - an outcome of the game, not an error of ours
    """The game does not do that; its text is the answer."""


class TextCraftGame:
    """One game in plain Python: an inventory and the rules."""

    def __init__(self, world: World, goal: str) -> None:
        self._world = world
        self._goal = goal
        self.inventory: dict[str, int] = {}

    def step(self, action: str) -> StepResult:
        """Carry out one action text."""
        try:
            if match := _CRAFT.match(action):
                return self._craft(*match.groups())
            if match := _GET.match(action):
                return self._get(*match.groups())
            if action.startswith("inventory"):
                return StepResult(Observation(self._inventory_text()))
            raise _Refused(f"Could not execute {action}")
        except _Refused as refusal:
            return StepResult(Observation(str(refusal)), is_refused=True)

    def _get(self, count_text: str, name: str) -> StepResult:
        key = to_key(name)
        world = self._world
        if world.is_craftable(key) or key in world.generics or key not in world.items:
            raise _Refused(f"Could not find {name}")
        count = _count(count_text)
        self.inventory[key] = self.inventory.get(key, 0) + count
        return StepResult(Observation(f"Got {count} {name}"))

    def _craft(self, count_text: str | None, name: str, inputs_text: str) -> StepResult:
        output_count = _count(count_text) if count_text else 1
        output = to_key(name)
        inputs = tuple([_read_ingredient(part) for part in inputs_text.split(",")])
        is_generic = output in self._world.generics
        if not self._has(inputs):
            wanted = None if is_generic else f"minecraft:{output}"
            raise _Refused(f"Could not find enough items to craft {wanted}")
        recipe = None if is_generic else self._matching_recipe(output, inputs)
        if recipe is None:
            raise _Refused(
                f"Could not find a valid recipe for {_repr(output, output_count, is_generic)}"
            )
        inventory = self.inventory
        for key, count in inputs:
            left = inventory[key] - count
            if left:
                inventory[key] = left
            else:
                del inventory[key]
        inventory[output] = inventory.get(output, 0) + recipe.count
        text = f"Crafted {recipe.count} minecraft:{output}"
        if output == self._goal:
            return StepResult(Observation(text), reward=1.0, is_done=True, is_success=True)
        return StepResult(Observation(text))

    def _has(self, inputs: Sequence[tuple[str, int]]) -> bool:
        totals = dict(inputs)
        if len(totals) < len(inputs):
            totals.clear()
            for key, count in inputs:
                totals[key] = totals.get(key, 0) + count
        left = self.inventory
        for key, count in totals.items():  # noqa: SIM110 - a generator here costs half a microsecond
            if key not in left or left[key] < count:
                return False
        return True

    def _matching_recipe(self, output: str, inputs: tuple[tuple[str, int], ...]) -> Recipe | None:
        for recipe in self._world.recipes.get(output, ()):
            # Written as listed is the common case, and needs no matching.
            if recipe.inputs == inputs or (
                len(recipe.inputs) == len(inputs) and self._matches(recipe, inputs)
            ):
                return recipe
        return None

    def _matches(self, recipe: Recipe, inputs: Sequence[tuple[str, int]]) -> bool:
        rest = list(inputs)
        generic_of = self._world.generic_of
        is_generic = self._world.generics
        for wanted, count in recipe.inputs:
            for given in rest:
                name = given[0]
                if name == wanted or (wanted in is_generic and generic_of.get(name) == wanted):
                    if given[1] != count:
                        return False
                    rest.remove(given)
                    break
            else:
                return False
        return True

    def _inventory_text(self) -> str:
        if not self.inventory:
            return "Inventory: You are not carrying anything."
        listed = "".join(f"[{shown(key)}] ({count}) " for key, count in self.inventory.items())
        return f"Inventory: {listed}"


def _read_ingredient(part: str) -> tuple[str, int]:
    text = part.strip()
    match = _COUNTED.match(text)
    if match is None:
        raise _Refused(f"Wrong item format: {text}")
    return to_key(match[2]), _count(match[1])


def _count(digits: str) -> int:
    if len(digits) > _MAX_COUNT_DIGITS:
        raise _Refused(f"Could not execute with a count of {len(digits)} digits")
    return int(digits)


def _repr(output: str, count: int, is_generic: bool) -> str:
    # The original answers with the repr of its own classes; agents have learned from it.
    name = f"minecraft:{output}"
    tag = f"tag={name!r}, item_id=None" if is_generic else f"tag=None, item_id={name!r}"
    return f"ItemTagWithCount(item_tag=ItemTag({tag}), count={count})"


class TextCraftEnv:
    """One episode of one TextCraft task."""

    def __init__(self, task: Task) -> None:
        self._first = tasks.first_observation(task)
        self._game = TextCraftGame(load_world(task.data["world"]), task.data["goal"])

    async def start(self) -> Observation:
        """Show the crafting commands and the goal."""
        return Observation(self._first)

    async def step(self, action: Action) -> StepResult:
        """Carry out one action."""
        return self._game.step(action.text)

    def state_key(self) -> str:
        """What one holds."""
        return str(sorted(self._game.inventory.items()))


class TextCraft:
    """TextCraft in this process: no server, no state between episodes."""

    id = tasks.ENV_ID
    rules = RULES
    commands: Sequence[Command] = COMMANDS
    max_turns = MAX_TURNS
    scripts: Mapping[str, Script] = {
        "expert": expert.play_expertly,
        "novice": expert.play_naively,
        "careless": expert.play_carelessly,
        "stepwise": stepwise.play_stepwise,
        "careless-stepwise": stepwise.play_stepwise_carelessly,
        "random": expert.play_randomly,
    }

    def panel_names(self) -> Sequence[str]:
        """Names of the shipped panels."""
        return tasks.PANELS.names()

    def panel(self, name: str) -> Panel:
        """Load a shipped panel; `train~7` and `train~w7` are its goals in renamed worlds.

        `train~v7` are its goals with other distractors in another order, `invented~1`,
        `invented~2`, … tasks in worlds made up whole.
        """
        shipped, tilde, seed = name.partition("~")
        if shipped == "invented":
            return invented_panel(seed)
        panel = tasks.PANELS.load(shipped)
        if not tilde:
            return panel
        if seed.startswith("v"):
            return Panel(name, tuple(self.variant(task, _variant_number(name)) for task in panel))
        return Panel(name, tuple(rename(task, seed) for task in panel))

    def variant(self, task: Task, number: int) -> Task:
        """The same goal with other distractors in another order; 0 is the task itself."""
        if number == 0:
            return task
        world = load_world(task.data["world"])
        other = tasks.make_task(world, task.data["goal"], variant=number, split=task.split)
        return replace(other, family=task.family)  # of a renamed world too

    def remaining(self, situation: Situation) -> int:
        """Items to fetch and crafts to do, by the expert's plan."""
        return expert.count_remaining(situation)

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncIterator[TextCraftEnv]:
        """Open one episode; it holds nothing that needs releasing."""
        yield TextCraftEnv(task)

    async def aclose(self) -> None:
        """Release nothing."""


def _variant_number(panel: str) -> int:
    number = panel.partition("~v")[2]
    if not re.fullmatch("[1-9][0-9]{0,8}", number):
        raise ConfigError(
            f"panel {panel[:80]!r}: after '~v' comes a whole number from 1 on, of up to nine digits"
        )
    return int(number)


def create() -> TextCraft:
    """Make the environment; called by the registry."""
    return TextCraft()
