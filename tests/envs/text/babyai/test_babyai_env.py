"""The environment as a whole: its promises, its players and its pictures."""

from __future__ import annotations

import asyncio
import json
import struct
import zlib

import pytest

from practicum.agents.formats import FORMATS
from practicum.core.agent import Situation
from practicum.core.commands import FREE_TEXT, to_call, to_text
from practicum.core.env import Decision, Script
from practicum.core.episode import Completion, Turn
from practicum.core.message import Action, Observation
from practicum.envs.contract import HOSTILE_ACTIONS, check_env, transcript, transcript_hash
from practicum.envs.text.babyai.env import BabyAI, create
from practicum.envs.text.babyai.expert import make_plan, play_expertly
from practicum.envs.text.babyai.tasks import make_task


async def test_every_promise_is_kept_with_pictures() -> None:
    broken = [result for result in await check_env(create(images=True)) if not result.is_kept]
    assert broken == []


async def test_the_expert_does_the_whole_dev_panel() -> None:
    environment = create()
    lost, rewards = [], []
    for task in environment.panel("dev"):
        turns, last = await transcript(environment, task, environment.scripts["expert"])
        if last is None or not last.is_success:
            lost.append(task.difficulty)
        assert not any(turn.is_refused for turn in turns)
        rewards.append(sum(turn.reward for turn in turns))
    assert lost == []
    assert all(0.1 <= reward < 1 for reward in rewards)


async def test_the_expert_takes_over_games_that_went_another_way() -> None:
    environment = create()
    names = ("GoToLocalS8N7", "OpenDoorLoc", "PickupLoc", "UnlockPickupDist")
    for task in [t for t in environment.panel("dev") if t.difficulty in names]:
        turns, last = await transcript(environment, task, _after_wandering(environment, 4))
        assert last is not None and last.is_success, (task.difficulty, len(turns))


def _after_wandering(environment: BabyAI, count: int) -> Script:
    def play(situation: Situation) -> Decision:
        turn = len(situation.history)
        if turn < count:
            return Decision(Action("turn right" if turn % 3 == 0 else "turn left"))
        return environment.scripts["expert"](situation)

    return play


def test_an_expert_without_hope_still_answers() -> None:
    # Opening the first of two doors fails this mission, so the plan ends there.
    tasks = (make_task("OpenDoorsOrderN4Debug", seed) for seed in range(20))
    task = next(t for t in tasks if "after you" in t.prompt)
    plan = make_plan(task.data["level"], task.data["seed"], ())
    seen = Observation("")
    history = [Turn(seen, Completion(d.action.text), d.action) for d in plan.steps]
    decision = play_expertly(Situation(task, 0, history, seen, seed=0))
    assert decision.action == Action("turn left")
    assert "no way" in decision.thought


def test_the_random_player_answers_a_remark_that_lists_nothing() -> None:
    task = create().panel("dev").tasks[0]
    situation = Situation(task, 0, [], Observation("Your answer was empty."), seed=3)
    assert create().scripts["random"](situation).action.text in ("turn left", "turn right")


async def test_commands_name_every_offered_action() -> None:
    environment = create()
    seen = set()
    for task in environment.panel("dev").tasks[::7]:
        turns, _ = await transcript(environment, task, environment.scripts["random"])
        for turn in turns:
            listed = json.loads(turn.observation.text.rpartition("Available actions: ")[2])
            for text in listed:
                call = to_call(environment.commands, text)
                assert call.name != FREE_TEXT
                assert to_text(environment.commands, call) == text
                seen.add(call.name)
    assert seen == {command.name for command in environment.commands}


async def test_expert_answers_can_be_written_in_every_format() -> None:
    environment = create()
    task = next(t for t in environment.panel("dev") if t.difficulty == "BlockedUnlockPickup")
    expert = environment.scripts["expert"]
    turns, _ = await transcript(environment, task, expert)
    for i, turn in enumerate(turns):
        decision = expert(Situation(task, 0, turns[:i], turn.observation, seed=0))
        assert decision.action == turn.action
        assert decision.thought.endswith(".")
        for action_format in FORMATS.values():
            action_format.render(decision, environment.commands)


@pytest.mark.parametrize("images", [False, True])
async def test_hostile_actions_are_refused_with_a_text(images: bool) -> None:
    environment = create(images=images)
    task = environment.panel("dev").tasks[0]
    async with environment.open(task) as env:
        await env.start()
        for text in (*HOSTILE_ACTIONS, "go to red ball " + "9" * 50_000, "\ud800"):
            result = await env.step(Action(text))
            assert result.is_refused and not result.is_done
            assert result.observation.text.startswith("The action is not recognized.")


async def test_many_episodes_at_once_go_as_they_go_alone() -> None:
    environment = create()
    tasks = environment.panel("dev").tasks[::10]
    script = environment.scripts["random"]
    alone = [transcript_hash(*await transcript(environment, t, script)) for t in tasks]
    played = await asyncio.gather(*(transcript(environment, t, script) for t in [*tasks, *tasks]))
    assert [transcript_hash(*p) for p in played] == [*alone, *alone]


async def test_a_cancelled_start_leaves_nothing_running() -> None:
    environment = create()
    task = environment.panel("dev").tasks[-1]
    async with environment.open(task) as env:
        starting = asyncio.create_task(env.start())
        await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
    assert asyncio.all_tasks() == {asyncio.current_task()}
    _, last = await transcript(environment, task, environment.scripts["expert"])
    assert last is not None and last.is_success


async def test_pictures_show_the_view_and_only_when_asked_for() -> None:
    task = create().panel("dev").tasks[5]
    async with create().open(task) as env:
        assert (await env.start()).images == ()
    shown = []
    for _ in "ab":
        async with create(images=True).open(task) as env:
            first = await env.start()
            refused = await env.step(Action("fly"))
            turned = await env.step(Action("turn left"))
            shown.append([*first.images, *refused.observation.images, *turned.observation.images])
    assert shown[0] == shown[1]
    before, still, after = shown[0]
    assert before == still != after
    width, height, pixels = _read_png(before.data)
    assert (width, height) == (224, 224)
    assert len(set(pixels)) > 3
    assert len(before.data) < 10_000


def test_pictures_are_mentioned_in_the_rules_that_come_with_them() -> None:
    assert "picture" not in create().rules
    assert "picture" in create(images=True).rules


def _read_png(data: bytes) -> tuple[int, int, bytes]:
    """Read what the encoder writes: one data chunk, no filters."""
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    chunks, at = {}, 8
    while at < len(data):
        (size,) = struct.unpack(">I", data[at : at + 4])
        name, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        (checksum,) = struct.unpack(">I", data[at + 8 + size : at + 12 + size])
        assert checksum == zlib.crc32(name + body)
        chunks[name] = body
        at += 12 + size
    width, height = struct.unpack(">II", chunks[b"IHDR"][:8])
    rows = zlib.decompress(chunks[b"IDAT"])
    assert len(rows) == height * (1 + 3 * width)
    return width, height, rows
