"""Words, rules and rewards, each case worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

from practicum.envs.text.babyai import menu
from practicum.envs.text.babyai.menu import normalise
from practicum.envs.text.babyai.world import Game

Furnish = Callable[..., Game]

MAX_STEPS = 64
"""Of one room of eight by eight and a mission of one walk."""


def actions(game: Game) -> list[str]:
    return list(game.menu.actions)


def test_the_first_message_is_worded_as_in_agentgym(
    furnish: Furnish, objects: Any, missions: Any
) -> None:
    game = furnish(
        {
            (0, 2): objects.Box("grey"),
            (1, 3): objects.Ball("red"),
            (-2, 0): objects.Key("blue"),
            (2, 2): objects.Ball("red"),
        },
        missions.GoToInstr(missions.ObjDesc("ball", "red")),
    )
    assert game.first_text == (
        "Your goal: go to a red ball\n"
        "In front of you in this room, you can see several objects: "
        "There is a grey box 1 right in front of you 2 steps away.  "
        "There is a blue key 1 0 steps in front of you and 2 steps to your left.  "
        "There is a red ball 1 3 steps in front of you and 1 steps to your right.  "
        "There is a red ball 2 2 steps in front of you and 2 steps to your right.  "
        "The room has walls around you. You are facing a box 2 steps away. "
        "You are not carrying anything.\n"
        'Available actions: ["turn left", "turn right", "move forward", "pick up grey box 1", '
        '"pick up blue key 1", "pick up red ball 1", "pick up red ball 2", "go to grey box 1", '
        '"go to blue key 1", "go to red ball 1", "go to red ball 2"]'
    )


def test_an_empty_view_is_told_as_one(furnish: Furnish, objects: Any, missions: Any) -> None:
    game = furnish(
        {(3, 0): objects.Ball("red")}, missions.GoToInstr(missions.ObjDesc("ball", "red"))
    )
    text = game.step("turn left").observation.text
    assert text.startswith(
        "You cannot see any objects within sight. The room has walls around you. "
        "You are facing a wall 3 steps away. You are not carrying anything.\n"
    )


def test_reward_counts_low_level_steps(furnish: Furnish, objects: Any, missions: Any) -> None:
    game = furnish(
        {(0, 3): objects.Ball("red")}, missions.GoToInstr(missions.ObjDesc("ball", "red"))
    )
    result = game.step("go to red ball 1")  # two steps forward
    assert result.is_done and result.is_success
    assert result.reward == pytest.approx(1 - 0.9 * 2 / MAX_STEPS)
    assert result.info == {"num_steps": 2, "max_steps": MAX_STEPS}
    assert result.observation.text.endswith("\nThe task is completed.")


def test_a_late_success_ends_the_episode_too(furnish: Furnish, objects: Any, missions: Any) -> None:
    game = furnish(
        {(0, 3): objects.Ball("red")}, missions.GoToInstr(missions.ObjDesc("ball", "red"))
    )
    for _ in range(40):
        assert game.step("turn left").reward == 0
    result = game.step("go to red ball 1")
    assert result.reward == pytest.approx(1 - 0.9 * 42 / MAX_STEPS)
    assert result.reward < 0.5
    assert result.is_done and result.is_success


def test_running_out_of_steps_ends_the_episode_unpaid(
    furnish: Furnish, objects: Any, missions: Any
) -> None:
    game = furnish(
        {(0, 3): objects.Ball("red")}, missions.GoToInstr(missions.ObjDesc("ball", "red"))
    )
    results = [game.step("turn left") for _ in range(MAX_STEPS)]
    assert [r.is_done for r in results] == [False] * (MAX_STEPS - 1) + [True]
    assert not results[-1].is_success
    assert sum(r.reward for r in results) == 0
    assert results[-1].observation.text.endswith("\nYou have run out of steps.")


def test_a_success_with_the_very_last_step_counts(
    furnish: Furnish, objects: Any, missions: Any
) -> None:
    game = furnish(
        {(1, 0): objects.Ball("red")}, missions.GoToInstr(missions.ObjDesc("ball", "red"))
    )
    game.world.step_count = MAX_STEPS - 1
    result = game.step("turn right")
    assert result.is_success
    assert result.reward == pytest.approx(0.1)


def test_an_action_stops_when_the_mission_is_done(
    furnish: Furnish, objects: Any, missions: Any
) -> None:
    game = furnish(
        {(0, 3): objects.Door("red")}, missions.OpenInstr(missions.ObjDesc("door", "red"))
    )
    result = game.step("toggle and go through red closed door 1")
    assert result.is_success
    assert result.info["num_steps"] == 3  # two steps, one toggle, and none into the door


def test_a_failed_mission_ends_the_episode(furnish: Furnish, objects: Any, missions: Any) -> None:
    things = {(0, 2): objects.Door("red"), (2, 3): objects.Door("blue")}
    game = furnish(things, missions.OpenInstr(missions.ObjDesc("door", "blue"), strict=True))
    result = game.step("toggle and go through red closed door 1")
    assert result.is_done and not result.is_success
    assert result.reward == 0
    assert result.observation.text.endswith("\nThe task has failed.")


def test_going_to_what_is_right_ahead_counts(furnish: Furnish, objects: Any, missions: Any) -> None:
    game = furnish(
        {(0, 1): objects.Ball("red")}, missions.GoToInstr(missions.ObjDesc("ball", "red"))
    )
    result = game.step("go to red ball 1")
    assert result.is_success
    assert result.info["num_steps"] == 1


def test_numbers_mean_the_same_thing_in_text_and_actions(
    furnish: Furnish, objects: Any, missions: Any
) -> None:
    shut_in = {(-2, 3): objects.Ball("red")}
    shut_in |= {place: objects.Box("grey") for place in ((-2, 2), (-2, 4), (-1, 3))}
    game = furnish(
        {**shut_in, (3, 4): objects.Ball("red")},
        missions.GoToInstr(missions.ObjDesc("ball", "red")),
    )
    assert "red ball 1 3 steps in front of you and 2 steps to your left" in game.first_text
    assert "go to red ball 1" not in actions(game)
    refused = game.step("go to red ball 1")
    assert refused.is_refused
    assert refused.observation.text.startswith(
        "You cannot go to red ball 1, as there is no path leading to it.\nAvailable actions: "
    )
    result = game.step("go to red ball 2")
    assert result.is_success
    assert game.view.by_place[0, 1].name == "red ball"


def test_forward_is_offered_only_where_it_moves(
    furnish: Furnish, objects: Any, missions: Any
) -> None:
    for blocker in (objects.Ball("blue"), objects.Key("blue"), objects.Door("blue")):
        game = furnish(
            {(0, 1): blocker, (2, 2): objects.Ball("red")},
            missions.GoToInstr(missions.ObjDesc("ball", "red")),
        )
        assert "move forward" not in actions(game)
        result = game.step("move forward")
        assert result.is_refused
        assert result.observation.text.startswith(
            "There is a barrier in front of you, you can't move forward."
        )
        assert game.world.step_count == 0


def test_one_thing_is_carried_and_dropped_on_free_ground(
    furnish: Furnish, objects: Any, missions: Any
) -> None:
    desc = missions.ObjDesc
    game = furnish(
        {(0, 2): objects.Key("blue"), (2, 3): objects.Ball("red"), (0, 4): objects.Box("grey")},
        missions.PutNextInstr(desc("key", "blue"), desc("ball", "red")),
    )
    assert game.step("drop").observation.text.startswith(
        "You cannot drop the object, as you are not carrying anything."
    )
    assert "You are carrying a blue key." in game.step("pick up blue key 1").observation.text
    second = game.step("pick up red ball 1")
    assert second.is_refused
    assert "as you are already carrying a blue key" in second.observation.text
    game.step("go to grey box 1")
    assert game.step("drop").observation.text.startswith(
        "You cannot drop the object, as there is already an object in front of you."
    )
    game.step("turn right")  # the ball is two steps ahead now, and free ground between
    result = game.step("drop")
    assert result.is_success


def test_doors_want_toggling_and_keys(furnish: Furnish, objects: Any, missions: Any) -> None:
    game = furnish(
        {
            (0, 3): objects.Door("red", is_locked=True),
            (1, 2): objects.Key("blue"),
            (-1, 2): objects.Key("red"),
            (3, 3): objects.Door("grey", is_open=True),
            (-2, 4): objects.Door("green"),
        },
        missions.OpenInstr(missions.ObjDesc("door", "red")),
    )
    opened, locked = "toggle and go through red locked door 1", "go through red locked door 1"
    assert "as you are not carrying a key." in game.step(opened).observation.text
    assert "as it is locked. You should toggle it first." in game.step(locked).observation.text
    closed = game.step("go through green closed door 1")
    assert "as it is closed. You should toggle it first." in closed.observation.text
    already = game.step("toggle and go through grey open door 1")
    assert already.is_refused and "as it is open" in already.observation.text
    assert "go through grey open door 1" in actions(game)
    game.step("pick up blue key 1")
    game.step("turn left")
    text = game.step(opened).observation.text
    assert "the color of the key you are carrying does not match the color of door" in text


def test_a_locked_door_opens_with_its_key(furnish: Furnish, objects: Any, missions: Any) -> None:
    game = furnish(
        {(0, 3): objects.Door("red", is_locked=True), (0, 1): objects.Key("red")},
        missions.GoToInstr(missions.ObjDesc("key", "red")),
    )
    game.world.instrs.desc.obj_poss = []  # nothing to reach: only the door matters here
    game.step("pick up red key 1")
    result = game.step("toggle and go through red locked door 1")
    assert not result.is_refused
    assert tuple(game.world.agent_pos) == (3, 3)  # in the doorway
    assert game.world.step_count == 1 + 2 + 1 + 1


def test_toggle_opens_a_box_and_shows_what_was_in_it(
    furnish: Furnish, objects: Any, missions: Any
) -> None:
    game = furnish(
        {(0, 1): objects.Box("grey", contains=objects.Key("red")), (2, 2): objects.Ball("red")},
        missions.GoToInstr(missions.ObjDesc("ball", "red")),
    )
    result = game.step("toggle")
    assert "There is a red key 1 right in front of you 1 steps away." in result.observation.text
    assert "grey box" not in result.observation.text
    assert game.step("toggle").is_refused


def test_toggle_shuts_an_open_door_so_that_it_can_be_opened(
    furnish: Furnish, objects: Any, missions: Any
) -> None:
    game = furnish(
        {(0, 1): objects.Door("red", is_open=True)},
        missions.OpenInstr(missions.ObjDesc("door", "red")),
    )
    assert not game.step("toggle").is_done
    assert game.step("toggle").is_success


def test_paths_lead_round_things_and_take_the_fewest_moves(
    furnish: Furnish, objects: Any, missions: Any
) -> None:
    game = furnish(
        {(0, 1): objects.Ball("blue"), (0, 3): objects.Ball("red")},
        missions.GoToInstr(missions.ObjDesc("ball", "red")),
    )
    # Left, forward, right, three forward, right: the ball is then to the right, ahead.
    assert len(game.menu.actions["go to red ball 1"]) == 7
    assert game.step("go to red ball 1").is_success


def test_an_order_in_the_mission_is_shown_as_it_is(
    furnish: Furnish, objects: Any, missions: Any
) -> None:
    go = missions.GoToInstr
    red, blue = missions.ObjDesc("ball", "red"), missions.ObjDesc("key", "blue")
    things = {(2, 2): objects.Ball("red"), (-2, 2): objects.Key("blue")}
    game = furnish(things, missions.AfterInstr(go(red), go(blue)))
    assert "Your goal: go to the red ball after you go to the blue key\n" in game.first_text
    assert not game.step("go to red ball 1").is_done


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("  Turn   LEFT ", "turn left"),
        ('"go to red ball 1".', "go to red ball 1"),
        ("pickup red ball 1", "pick up red ball 1"),
        ("pickups red ball 1", "pickups red ball 1"),
        ("turn\x00 left", "turn left"),
        ("é" * 50_000, ""),
    ],
)
def test_actions_are_read_generously(given: str, read: str) -> None:
    assert normalise(given) == read


def test_checking_the_actions_is_understood_and_free(
    furnish: Furnish, objects: Any, missions: Any
) -> None:
    game = furnish(
        {(0, 3): objects.Ball("red")}, missions.GoToInstr(missions.ObjDesc("ball", "red"))
    )
    result = game.step("check available actions")
    assert not result.is_refused
    assert result.observation.text.startswith(
        "You can take the following actions: turn left, turn right, move forward, "
    )
    assert game.world.step_count == 0


@pytest.mark.parametrize(
    "text", ["", "fly", "go to", "go to red ball 99", "go to wall 1", "drop it"]
)
def test_what_is_not_offered_is_refused_and_changes_nothing(
    furnish: Furnish, objects: Any, missions: Any, text: str
) -> None:
    game = furnish(
        {(0, 3): objects.Ball("red")}, missions.GoToInstr(missions.ObjDesc("ball", "red"))
    )
    result = game.step(text)
    assert result.is_refused and not result.is_done
    assert result.observation.text.startswith("The action is not recognized.")
    assert game.world.step_count == 0


def test_low_level_moves_are_minigrids() -> None:
    theirs = import_module("minigrid.core.actions").Actions
    ours = (menu.LEFT, menu.RIGHT, menu.FORWARD, menu.PICK_UP, menu.DROP, menu.TOGGLE, menu.WAIT)
    named = (
        theirs.left,
        theirs.right,
        theirs.forward,
        theirs.pickup,
        theirs.drop,
        theirs.toggle,
        theirs.done,
    )
    assert ours == tuple(int(action) for action in named)
