"""The programmed players: they win, say why, and read only what is shown."""

from __future__ import annotations

from dataclasses import replace

import pytest
from envs.text.alfworld.walks import LAB

from practicum.core.agent import Situation
from practicum.core.canonical import stable_seed
from practicum.core.env import Decision
from practicum.core.episode import Completion, Turn
from practicum.core.message import Action, Observation
from practicum.core.task import Task
from practicum.envs.contract import transcript
from practicum.envs.text.alfworld.env import ALFWorld
from practicum.envs.text.alfworld.expert import play_expertly, play_randomly
from practicum.envs.text.alfworld.goals import CLEAN, SIMPLE, Goal
from practicum.envs.text.alfworld.tasks import make_task


@pytest.mark.parametrize("panel", ["dev", "test_unseen"])
async def test_expert_wins_every_task_without_a_refusal(panel: str) -> None:
    environment = ALFWorld()
    for task in environment.panel(panel):
        turns, last = await transcript(environment, task, play_expertly)
        assert last is not None and last.is_success, task.id
        assert not any(turn.is_refused for turn in turns)


async def test_expert_reads_nothing_but_the_messages() -> None:
    def blindfolded(situation: Situation) -> Decision:
        blank = Task.create("alfworld", "", {})
        return play_expertly(replace(situation, task=blank))

    environment = ALFWorld()
    for task in environment.panel("dev").tasks[::20]:
        _, last = await transcript(environment, task, blindfolded)
        assert last is not None and last.is_success


async def test_expert_gives_a_short_reason_with_every_action() -> None:
    environment = ALFWorld()
    thoughts: list[str] = []

    def listened(situation: Situation) -> Decision:
        decision = play_expertly(situation)
        thoughts.append(decision.thought)
        return decision

    for task in environment.panel("dev").tasks[::33]:
        await transcript(environment, task, listened)
    assert all(10 < len(thought) < 160 for thought in thoughts)
    assert len(set(thoughts)) > len(thoughts) // 2


async def test_expert_takes_over_after_random_play() -> None:
    environment = ALFWorld()
    for task in environment.panel("dev").tasks[::12]:

        def mixed(situation: Situation) -> Decision:
            return (play_randomly if len(situation.history) < 20 else play_expertly)(situation)

        _, last = await transcript(environment, task, mixed, seed=stable_seed("mixed"))
        assert last is not None and last.is_success, task.id


async def test_expert_goes_on_after_answers_that_could_not_be_read() -> None:
    first = Observation("…")
    async with ALFWorld().open(LAB) as env:
        first = await env.start()
    told = Observation("Your answer held no action. Answer in this form: …")
    history = [Turn(first, Completion("hm"), None), Turn(told, Completion("hm"), None)]
    decision = play_expertly(Situation(LAB, 0, history, told, 0))
    assert decision == play_expertly(Situation(LAB, 0, [], first, 0))
    assert play_randomly(Situation(LAB, 0, history, told, 0)).action.text in first.text


def test_expert_first_looks_where_such_a_thing_usually_is() -> None:
    seen = (
        "You are in the middle of a room. Looking quickly around you, you see a cabinet 1, "
        "a fridge 1, a sinkbasin 1, and a toaster 1.\nYour task is to: put a clean egg in cabinet."
    )
    task = make_task(Goal(CLEAN, "egg", "cabinet"), {}, [])
    assert _decide(task, seen).action == Action("go to fridge 1")


def test_expert_looks_at_what_is_in_reach_without_walking() -> None:
    # In ALFWorld's own games a desk and its drawers are often reached from one spot.
    seen = (
        "You are in the middle of a room. Looking quickly around you, you see a desk 1, "
        "and a drawer 1.\nYour task is to: put a pen in desk.\n"
        "AVAILABLE ACTIONS: go to desk 1, go to drawer 1, inventory, look"
    )
    desk = (
        "You arrive at desk 1. On the desk 1, you see nothing.\nAVAILABLE ACTIONS: "
        "examine desk 1, examine drawer 1, inventory, look, open drawer 1"
    )
    closed = "The drawer 1 is closed.\nAVAILABLE ACTIONS: examine drawer 1, open drawer 1"
    task = make_task(Goal(SIMPLE, "pen", "desk"), {}, [])
    history = [Turn(Observation(seen), Completion(""), Action("go to desk 1"))]
    first = play_expertly(Situation(task, 0, history, Observation(desk), 0))
    history.append(Turn(Observation(desk), Completion(""), first.action))
    second = play_expertly(Situation(task, 0, history, Observation(closed), 0))
    assert [first.action.text, second.action.text] == ["examine drawer 1", "open drawer 1"]


def test_expert_does_not_break_on_a_task_in_other_words() -> None:
    seen = (
        "You are in the middle of a room. Looking quickly around you, you see a bed 1.\n"
        "Your task is to: Place the book on the bed, please."
    )
    task = make_task(Goal(SIMPLE, "book", "bed"), {}, [])
    assert _decide(task, seen).action == Action("look")
    assert _decide(task, "").action == Action("look")


def _decide(task: Task, text: str) -> Decision:
    return play_expertly(Situation(task, 0, [], Observation(text), 0))


async def test_random_play_is_seeded_and_possible() -> None:
    environment = ALFWorld()
    task = environment.panel("dev").tasks[0]
    one, _ = await transcript(environment, task, play_randomly, seed=1)
    other, _ = await transcript(environment, task, play_randomly, seed=2)
    assert [t.action for t in one] != [t.action for t in other]
    assert not any(turn.is_refused for turn in [*one, *other])
