"""Rewards, ends, refusals: what an episode shows and pays."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

import pytest

from practicum.core.commands import FREE_TEXT, to_call
from practicum.core.env import StepResult
from practicum.core.errors import ConfigError, EnvError
from practicum.core.message import Action
from practicum.core.task import Task
from practicum.envs.contract import transcript
from practicum.envs.text.sciworld import env as env_module
from practicum.envs.text.sciworld.env import SciWorld, create
from practicum.envs.text.sciworld.gold import gold_path
from practicum.envs.text.sciworld.tasks import make_task

BULB = make_task(
    "power-component",
    5,
    description=(
        "Your task is to turn on the green light bulb. First, focus on the green light bulb. "
        "Then, create an electrical circuit that powers it on."
    ),
    gold=(),
)
BOIL = make_task(
    "boil",
    0,
    description=(
        "Your task is to boil water. For compounds without a boiling point, combusting the "
        "substance is also acceptable. First, focus on the substance. Then, take actions that "
        "will cause it to change its state of matter."
    ),
    gold=(),
)
CIRCUIT = (
    "focus on green light bulb",
    "connect battery anode to black wire terminal 1",
    "connect battery cathode to blue wire terminal 1",
    "connect black wire terminal 2 to cathode in green light bulb",
    "connect blue wire terminal 2 to anode in green light bulb",
)


async def play(environment: SciWorld, task: Task, actions: Sequence[str]) -> list[StepResult]:
    async with environment.open(task) as env:
        await env.start()
        return [await env.step(Action(action)) for action in actions]


async def test_the_expert_wins_on_the_dev_panel(sciworld: SciWorld) -> None:
    # Every ninth task; the whole panel takes minutes.
    tasks = sciworld.panel("dev").tasks[::9]
    lost = []
    for task in tasks:
        _, last = await transcript(sciworld, task, sciworld.scripts["expert"])
        if last is None or not last.is_success:
            lost.append(task.id)
    assert len(lost) <= 0.05 * len(tasks), lost


async def test_the_first_observation_is_the_task_and_then_the_room(sciworld: SciWorld) -> None:
    async with sciworld.open(BOIL) as env:
        text = (await env.start()).text
    first, second = text.split("\n")[:2]
    assert first == BOIL.prompt
    assert second == "This room is called the hallway. In it, you see: "


async def test_a_turn_pays_what_it_adds_to_the_score(sciworld: SciWorld) -> None:
    results = await play(sciworld, BULB, CIRCUIT)
    # 7 points for starting in the room with the bulb are paid with the first action.
    assert [r.info["score"] for r in results] == [57, 57, 57, 70, 100]
    assert [r.reward for r in results] == pytest.approx([0.57, 0, 0, 0.13, 0.3])
    assert [r.is_done for r in results] == [False] * 4 + [True]
    assert [r.is_success for r in results] == [False] * 4 + [True]


async def test_a_wrong_focus_ends_the_episode_and_takes_back_what_was_earned(
    sciworld: SciWorld,
) -> None:
    results = await play(sciworld, BULB, ["look around", "focus on table"])
    assert [r.info["score"] for r in results] == [7, -100]
    assert [r.reward for r in results] == pytest.approx([0.07, -0.07])
    assert results[-1].is_done and not results[-1].is_success


async def test_progress_that_is_reset_is_not_paid_twice(sciworld: SciWorld) -> None:
    results = await play(sciworld, BULB, [CIRCUIT[0], "reset task", *CIRCUIT])
    assert results[1].reward < 0
    assert results[-1].is_success
    assert sum(r.reward for r in results) == pytest.approx(1)


async def test_a_refused_action_earns_nothing_even_in_a_world_that_starts_with_points(
    sciworld: SciWorld,
) -> None:
    refused, done = await play(sciworld, BULB, ["xyzzy", "look around"])
    assert refused.is_refused and refused.reward == 0
    assert not done.is_refused and done.reward == pytest.approx(0.07)


async def test_an_ambiguous_action_is_refused_and_a_number_chooses(sciworld: SciWorld) -> None:
    asked, chosen, again = await play(sciworld, BOIL, ["open door", "3", "3"])
    assert asked.is_refused and not asked.is_done
    assert asked.observation.text.startswith("Ambiguous request: Please enter the number")
    assert "3:\topen door between workshop and hallway" in asked.observation.text
    assert chosen.observation.text == "The door is now open." and not chosen.is_refused
    assert again.is_refused, "there is nothing to choose any more"


async def test_anything_but_a_number_cancels_an_ambiguous_action(sciworld: SciWorld) -> None:
    _, cancelled, free = await play(sciworld, BOIL, ["open door", "open picture", "look around"])
    assert cancelled.is_refused
    assert cancelled.observation.text.startswith("Unknown action.")
    assert not free.is_refused


@pytest.mark.parametrize("word", ["99", "-1", "", "9" * 400, "\x00", "\udc80", "x" * 60_000])
async def test_no_answer_to_a_choice_breaks_the_episode(sciworld: SciWorld, word: str) -> None:
    _, answer, *_ = await play(sciworld, BOIL, ["open door", word, "look around"])
    assert answer.is_refused and answer.reward == 0


async def test_words_of_the_original_interface_are_answered(sciworld: SciWorld) -> None:
    task, forms, names = await play(sciworld, BOIL, ["task", "help", "objects"])
    assert task.observation.text == f"Task description:\n{BOIL.prompt}"
    assert forms.observation.text.startswith("Possible actions: \n\tactivate OBJ\n\tclose OBJ")
    assert names.observation.text.startswith("Possible object references: \n\tagent\n\tair")
    assert not any(r.is_refused or r.reward for r in (task, forms, names))


async def test_asking_for_valid_actions_is_possible_and_changes_nothing(
    sciworld: SciWorld,
) -> None:
    plain = await play(sciworld, BULB, CIRCUIT)
    asked = []
    async with sciworld.open(BULB) as env:
        await env.start()
        assert "focus on green light bulb" in await env.valid_actions()
        for action in CIRCUIT:
            asked.append(await env.step(Action(action)))
            assert "look around" in await env.valid_actions()
    assert asked == plain


async def test_a_step_does_not_pay_for_the_list_of_valid_actions(sciworld: SciWorld) -> None:
    async with sciworld.open(BOIL) as env:
        await env.start()
        step_s, list_s = [], []
        for _ in range(8):
            start = time.perf_counter()
            await env.step(Action("wait1"))
            middle = time.perf_counter()
            await env.valid_actions()
            step_s.append(middle - start)
            list_s.append(time.perf_counter() - middle)
    assert statistics.median(step_s) < statistics.median(list_s) / 3


async def test_the_gold_path_reaches_nobody_but_the_expert(sciworld: SciWorld) -> None:
    for task in sciworld.panel("dev").tasks[::40]:
        path = gold_path(task.id)
        assert set(task.data) == {"engine", "task", "variation", "simplifications"}
        async with sciworld.open(task) as env:
            first = await env.start()
            result = await env.step(Action("look around"))
        shown = "\n".join([sciworld.rules, task.prompt, first.text, result.observation.text])
        assert not any("\n".join(path[i : i + 2]) in shown for i in range(len(path) - 1))
        assert set(result.info) == {"score"}


async def test_expert_actions_are_commands_the_agent_is_told(sciworld: SciWorld) -> None:
    for name in sciworld.panel_names():
        for task in sciworld.panel(name):
            for action in gold_path(task.id):
                assert to_call(sciworld.commands, action).name != FREE_TEXT, action


async def test_a_task_is_checked_against_the_task_asked_for(sciworld: SciWorld) -> None:
    stranger = make_task("boil", 4, description=BOIL.prompt, gold=())
    with pytest.raises(EnvError, match="boil water") as caught:
        await play(sciworld, stranger, [])
    assert caught.value.kind == "wrong-task"


@pytest.mark.parametrize(("name", "variation"), [("boil", 30), ("boil", -1), ("fly", 0)])
async def test_a_task_that_does_not_exist_is_an_error_of_the_episode(
    sciworld: SciWorld, name: str, variation: int
) -> None:
    with pytest.raises(EnvError) as caught:
        await play(sciworld, make_task(name, variation, description="x", gold=()), [])
    assert caught.value.kind in ("no-such-task", "engine")
    assert (await play(sciworld, BOIL, ["look around"]))[0].is_refused is False


def test_importing_the_environment_loads_neither_the_engine_nor_py4j() -> None:
    code = (
        "import sys, practicum.envs.text.sciworld.env as e; e.create().panel('dev'); "
        "sys.exit('py4j' in sys.modules or 'scienceworld' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


async def test_without_the_package_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(env_module, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="pip install 'scienceworld"):
        await play(create(), BOIL, [])


async def test_without_java_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "")
    environment = create()
    with pytest.raises(ConfigError, match="apt-get install default-jre-headless"):
        await play(environment, BOIL, [])
    await environment.aclose()


def test_at_least_one_process_is_needed() -> None:
    with pytest.raises(ConfigError, match="max_jvms is 0"):
        create(max_jvms=0)
