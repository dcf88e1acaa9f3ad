"""Programmed BabyAI players.

The expert is minigrid's bot speaking in action texts (`guide.py`). It may look at the true
level, which the text does not show in full; it explores as a player would. It keeps no
state: the plan for a level is made in a copy of the game and remembered by level, seed and
the actions taken, so it can take over a game that went another way.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from random import Random

from practicum.core.agent import Situation
from practicum.core.env import Decision
from practicum.core.message import Action
from practicum.envs.text.babyai.guide import Guide, LostError
from practicum.envs.text.babyai.world import Game

PLAN_TURNS = 128
"""Longest plan that is worth making; above the horizon, so that freezing can measure."""

_LIST = "Available actions: "


@dataclass(frozen=True)
class Plan:
    """What to do, in order; to the goal, or as far as the bot can see."""

    steps: tuple[Decision, ...]
    is_whole: bool


def play_expertly(situation: Situation) -> Decision:
    """Take the next action of the bot's plan."""
    rest = _plan_from(situation).steps
    if rest:
        return rest[0]
    return Decision(Action("turn left"), "I see no way to the goal from here, so I look around.")


def count_remaining(situation: Situation) -> int:
    """How many actions the plan from here has; where the bot is lost, nothing is gained yet."""
    plan = _plan_from(situation)
    data = situation.task.data
    return len((plan if plan.is_whole else make_plan(data["level"], data["seed"], ())).steps)


def play_randomly(situation: Situation) -> Decision:
    """Draw one of the listed actions."""
    _, _, listed = situation.observation.text.partition(_LIST)
    # A remark on a malformed answer lists nothing; turning is always possible.
    options = json.loads(listed) if listed else ["turn left", "turn right"]
    return Decision(Action(Random(situation.seed).choice(options)))


def _plan_from(situation: Situation) -> Plan:
    """The plan of the start as long as it was followed, then that of where it was left."""
    level, seed = situation.task.data["level"], situation.task.data["seed"]
    done = tuple(t.action.text for t in situation.history if t.action and not t.is_refused)
    plan, start = make_plan(level, seed, ()), 0
    for i, action in enumerate(done):
        if i - start >= len(plan.steps) or plan.steps[i - start].action.text != action:
            plan, start = make_plan(level, seed, done[: i + 1]), i + 1
    return Plan(plan.steps[len(done) - start :], plan.is_whole)


@lru_cache(maxsize=2048)
def make_plan(level: str, seed: int, done: tuple[str, ...]) -> Plan:
    """Plan a level to its end, or as far as the bot can see, after some actions."""
    game = Game(level, seed)
    steps: list[Decision] = []
    is_whole = False
    # A guide that is lost has said all it can: the plan ends there.
    with suppress(LostError):
        guide = Guide(game)
        for text in done:
            is_whole = guide.follow(text).is_success
        while not game.is_over and len(steps) < PLAN_TURNS:
            text, reason = guide.advise()
            steps.append(Decision(Action(text), reason))
            is_whole = guide.follow(text).is_success
    return Plan(tuple(steps), is_whole)
