"""A TextCraft player that thinks one craft ahead: it compares, and never multiplies.

The expert works out everything the goal will take, `6 planks` from `2 logs`, before it acts. A
small model gets such sums wrong and forgets branches. This player goes down from the goal to the
first thing that is missing for one craft, and does what is missing there. All its numbers are
copied, from a listed command or from what it holds; the games are a little longer, their texts not.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from practicum.core.agent import Situation
from practicum.core.env import Decision
from practicum.core.message import Action
from practicum.envs.text.textcraft.expert import (
    Inventory,
    Listed,
    Planner,
    Puzzle,
    carry_out,
    first_text,
    held_of,
    look_after_refusal,
    read_puzzle,
    replay,
    tell,
)


@dataclass(frozen=True)
class Level:
    """One craft on the way down, and what it waits for."""

    craft: Listed
    held: tuple[int, ...]
    """Of its ingredients, up to the first of which there are too few."""
    missing: tuple[str, int] | None

    def told(self) -> str:
        """`chest needs 8 oak planks (4)`: what the craft takes, and how much of it is there."""
        known = zip(self.craft.inputs, self.held, strict=False)
        parts = ", ".join(f"{count} {name} ({held})" for (name, count), held in known)
        return f"{self.craft.output} needs {parts}"


def play_stepwise(situation: Situation) -> Decision:
    """Do what the first unfinished craft waits for; after a refusal, look first."""
    return look_after_refusal(situation) or _decide(_read(situation))


def play_stepwise_carelessly(situation: Situation) -> Decision:
    """Err as one does who thinks stepwise: the world refuses what follows.

    Either something is fetched that must be crafted, or the next action is taken for done. Where
    neither can happen, the right action is taken.
    """
    scene = _read(situation)
    levels = _descend(scene)
    mistakes = [
        Decision(Action(_get(level.missing)), _thought(scene.inventory, levels[: number + 1]))
        for number, level in enumerate(levels[:-1])
        if level.missing
    ]
    last = levels[-1]
    believed = dict(scene.inventory)
    if last.missing:
        name, count = last.missing
        believed[name] = believed.get(name, 0) + count
    else:
        carry_out(last.craft, believed)
    if len(levels) > 1 or last.missing:
        mistaken = _decide(_Scene(scene.puzzle, held_of(believed), scene.refused))
        if mistaken.action.text.startswith("craft "):
            mistakes.append(mistaken)
    return Random(situation.seed).choice(mistakes) if mistakes else _decide(scene)


@dataclass(frozen=True)
class _Scene:
    puzzle: Puzzle
    inventory: Inventory
    refused: frozenset[str]


def _read(situation: Situation) -> _Scene:
    return _Scene(read_puzzle(first_text(situation)), *replay(situation))


def _decide(scene: _Scene) -> Decision:
    levels = _descend(scene)
    last = levels[-1]
    action = _get(last.missing) if last.missing else last.craft.line
    return Decision(Action(action), _thought(scene.inventory, levels))


def _descend(scene: _Scene) -> list[Level]:
    """From the goal to a craft that can be done now, or that waits for something to fetch."""
    planner = Planner(scene.puzzle, scene.refused)
    levels = [_look_at(scene.puzzle.goal, planner, scene.inventory)]
    while (missing := levels[-1].missing) and missing[0] in scene.puzzle.recipes:
        if any(missing[0] == level.craft.output for level in levels):
            break  # the only recipes left go in a circle
        levels.append(_look_at(missing[0], planner, scene.inventory))
    return levels


def _look_at(name: str, planner: Planner, inventory: Inventory) -> Level:
    """Choose a recipe, and count its ingredients until one is missing."""
    listed = planner.recipe(name, 1)
    left = dict(inventory)
    inputs: list[tuple[str, int]] = []
    held: list[int] = []
    missing = None
    for key, count in listed.inputs:
        member = planner.member(key, count, left)
        inputs.append((member, count))
        if missing is None:
            held.append(left.get(member, 0))
            if held[-1] < count:
                missing = (member, count)
        left[member] = max(left.get(member, 0) - count, 0)  # two kinds may be the same thing
    return Level(Listed(listed.output, listed.count, tuple(inputs)), tuple(held), missing)


def _get(missing: tuple[str, int]) -> str:
    name, count = missing
    return f"get {count} {name}"


def _thought(inventory: Inventory, levels: list[Level]) -> str:
    return f"{tell(inventory)} {'. '.join(level.told() for level in levels)}."
