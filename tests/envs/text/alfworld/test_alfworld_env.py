"""The built-in household world as an environment: its rules, rewards and refusals."""

from __future__ import annotations

import asyncio

import pytest
from envs.text.alfworld.walks import LAB

from practicum.core.commands import to_call, to_text
from practicum.core.env import StepResult
from practicum.core.errors import ConfigError, EnvError
from practicum.core.message import Action
from practicum.core.task import Task
from practicum.envs.contract import HOSTILE_ACTIONS
from practicum.envs.text.alfworld.env import ALFWorld, create
from practicum.envs.text.alfworld.goals import (
    CLEAN,
    COOL,
    HEAT,
    LOOK,
    SIMPLE,
    TWO,
    WORDINGS,
    Goal,
    read_goal,
)
from practicum.envs.text.alfworld.language import ACTIONS_MARK, COMMANDS, split_actions
from practicum.envs.text.alfworld.tasks import make_task

KITCHEN = {
    "cabinet": [["plate 1"], []],
    "countertop": [["apple 1", "desklamp 1", "mug 1"]],
    "fridge": [["apple 2"]],
    "microwave": [[]],
    "sinkbasin": [[]],
}


async def play(task: Task, *commands: str) -> list[StepResult]:
    async with ALFWorld().open(task) as env:
        await env.start()
        return [await env.step(Action(command)) for command in commands]


def said(result: StepResult) -> str:
    return split_actions(result.observation.text)[0]


async def test_first_message_shows_the_room_the_task_and_the_actions() -> None:
    task = make_task(Goal(CLEAN, "plate", "fridge"), KITCHEN, [])
    async with ALFWorld().open(task) as env:
        first = await env.start()
    assert first.text == (
        "You are in the middle of a room. Looking quickly around you, you see a cabinet 2, "
        "a cabinet 1, a countertop 1, a fridge 1, a microwave 1, and a sinkbasin 1.\n"
        "Your task is to: put a clean plate in fridge.\n"
        "AVAILABLE ACTIONS: go to cabinet 1, go to cabinet 2, go to countertop 1, "
        "go to fridge 1, go to microwave 1, go to sinkbasin 1, inventory, look"
    )


async def test_a_task_of_each_type_can_be_won_and_pays_one() -> None:
    fetch = ("go to countertop 1", "take apple 1 from countertop 1")
    put = ("go to fridge 1", "open fridge 1", "move apple 1 to fridge 1")
    away = ("go to fridge 1", "cool apple 1 with fridge 1", "go to countertop 1")
    ways = {
        SIMPLE: (Goal(SIMPLE, "mug", "cabinet"), (
            "go to countertop 1", "take mug 1 from countertop 1",
            "go to cabinet 2", "open cabinet 2", "move mug 1 to cabinet 2",
        )),
        LOOK: (Goal(LOOK, "apple", "desklamp"), (*fetch, "use desklamp 1")),
        CLEAN: (Goal(CLEAN, "apple", "fridge"), (
            *fetch, "go to sinkbasin 1", "clean apple 1 with sinkbasin 1", *put,
        )),
        HEAT: (Goal(HEAT, "apple", "fridge"), (
            *fetch, "go to microwave 1", "heat apple 1 with microwave 1", *put,
        )),
        COOL: (Goal(COOL, "apple", "countertop"), (
            *fetch, *away, "move apple 1 to countertop 1",
        )),
        TWO: (Goal(TWO, "apple", "fridge"), (*fetch, *put)),
    }  # fmt: skip
    assert ways.keys() == WORDINGS.keys()
    for goal, commands in ways.values():
        results = await play(make_task(goal, KITCHEN, []), *commands)
        assert [r.is_refused for r in results] == [False] * len(commands)
        assert [r.reward for r in results] == [0.0] * (len(commands) - 1) + [1.0]
        assert [r.is_done for r in results] == [r.is_success for r in results]
        assert results[-1].is_success
        assert ACTIONS_MARK not in results[-1].observation.text


async def test_an_untreated_object_does_not_count() -> None:
    task = make_task(Goal(HEAT, "apple", "fridge"), KITCHEN, [])
    results = await play(
        task,
        "go to countertop 1",
        "take apple 1 from countertop 1",
        "go to microwave 1",
        "heat apple 1 with microwave 1",
        "go to fridge 1",
        "cool apple 1 with fridge 1",
        "open fridge 1",
        "move apple 1 to fridge 1",
    )
    assert not any(r.is_done for r in results)
    assert said(results[-1]) == "You move the apple 1 to the fridge 1."


async def test_two_objects_must_share_one_receptacle() -> None:
    house = {"cabinet": [[], []], "countertop": [["mug 1", "mug 2"]]}
    task = make_task(Goal(TWO, "mug", "cabinet"), house, ["cabinet 1", "cabinet 2"])
    apart = [
        "go to countertop 1",
        "take mug 1 from countertop 1",
        "go to cabinet 1",
        "move mug 1 to cabinet 1",
        "go to countertop 1",
        "take mug 2 from countertop 1",
        "go to cabinet 2",
        "move mug 2 to cabinet 2",
    ]
    results = await play(
        task,
        *apart,
        "take mug 2 from cabinet 2",
        "go to cabinet 1",
        "move mug 2 to cabinet 1",
    )
    assert [r.is_success for r in results] == [False] * 10 + [True]


async def test_a_lamp_switched_on_elsewhere_does_not_light_the_object() -> None:
    task = make_task(Goal(LOOK, "plate", "desklamp"), KITCHEN, ["cabinet 1"])
    results = await play(
        task,
        "go to countertop 1",
        "use desklamp 1",
        "go to cabinet 1",
        "take plate 1 from cabinet 1",
        "go to countertop 1",
    )
    assert [r.is_success for r in results] == [False] * 4 + [True]


@pytest.mark.parametrize(
    "command",
    [
        "put apple 1 in/on fridge 1",
        "put apple 1 in fridge 1",
        "put apple 1 on fridge 1",
        "move apple 1 to fridge 1",
        "  Move  APPLE 1 to\tfridge 1\n",
    ],
)
async def test_both_spellings_of_putting_are_understood(command: str) -> None:
    task = make_task(Goal(SIMPLE, "apple", "sinkbasin"), KITCHEN, ["fridge 1"])
    results = await play(
        task, "go to countertop 1", "take apple 1 from countertop 1", "go to fridge 1", command
    )
    assert said(results[-1]) == "You move the apple 1 to the fridge 1."


async def test_the_impossible_is_refused_and_changes_nothing() -> None:
    results = await play(
        LAB,
        "take apple 1 from countertop 1",
        "open fridge 1",
        "go to fridge 2",
        "go to fridge 1",
        "take egg 1 from fridge 1",
        "close fridge 1",
        "open fridge 1",
        "take egg 1 from fridge 1",
        "take lettuce 1 from fridge 1",
        "heat egg 1 with fridge 1",
        "inventory",
    )
    assert [r.is_refused for r in results] == [1, 1, 1, 0, 1, 1, 0, 0, 1, 1, 0]
    for result in results:
        assert result.is_refused == (said(result) == "Nothing happens.")
    assert said(results[-1]) == "You are carrying: a egg 1."


async def test_every_listed_action_is_possible_and_reads_as_a_command() -> None:
    async with ALFWorld().open(LAB) as env:
        text = (await env.start()).text
        for command in ("go to countertop 1", "take knife 1 from countertop 1", "go to fridge 1"):
            for action in split_actions(text)[1]:
                call = to_call(COMMANDS, action)
                assert call.name != "act"
                assert to_text(COMMANDS, call) == action
            result = await env.step(Action(command))
            assert not result.is_refused
            text = result.observation.text


async def test_hostile_commands_are_refused_with_a_text() -> None:
    more = ("go to " + "fridge " * 20_000, "put a b in " + "9" * 50_000, "use\x00desklamp 1")
    for text in (*HOSTILE_ACTIONS, *more):
        (result,) = await play(LAB, text)
        assert result.is_refused
        assert said(result) == "Nothing happens."


async def test_a_reached_goal_does_not_pay_again() -> None:
    house = {"countertop": [["apple 1"]], "sinkbasin": [[]]}
    task = make_task(Goal(SIMPLE, "apple", "sinkbasin"), house, [])
    *_, won, after = await play(
        task,
        "go to countertop 1",
        "take apple 1 from countertop 1",
        "go to sinkbasin 1",
        "move apple 1 to sinkbasin 1",
        "take apple 1 from sinkbasin 1",
    )
    assert won.is_success
    assert after.is_refused and after.reward == 0


async def test_interleaved_episodes_of_one_task_do_not_share_a_house() -> None:
    environment = ALFWorld()
    async with environment.open(LAB) as one, environment.open(LAB) as other:
        await asyncio.gather(one.start(), other.start())
        await one.step(Action("go to countertop 1"))
        await other.step(Action("go to countertop 1"))
        await one.step(Action("take apple 1 from countertop 1"))
        taken = await other.step(Action("take apple 1 from countertop 1"))
    assert said(taken) == "You pick up the apple 1 from the countertop 1."


def test_goals_read_back_from_their_words() -> None:
    for task_type in WORDINGS:
        goal = Goal(task_type, "plate", "fridge")
        assert [read_goal(goal.words(wording)) for wording in (0, 1)] == [goal, goal]
    assert read_goal("tidy up the kitchen") is None


def test_unknown_engine_and_games_without_it_are_config_errors() -> None:
    with pytest.raises(ConfigError, match="did you mean 'textworld'"):
        create(engine="textwrld")
    with pytest.raises(ConfigError, match="engine='textworld'"):
        create(games="somewhere")


async def test_a_game_file_task_is_not_played_in_the_built_in_world() -> None:
    task = Task.create("alfworld", "put a mug in desk.", {"game": "x", "sha256": "y"})
    with pytest.raises(EnvError, match="engine='textworld'") as caught:
        async with ALFWorld().open(task):
            pass
    assert caught.value.kind == "wrong-engine"
