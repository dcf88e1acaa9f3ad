"""Worlds in one process: the original's answers, and nothing of each other."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from functools import partial
from typing import Any

from practicum.core.message import Action
from practicum.core.task import Task
from practicum.envs.contract import transcript, transcript_hash
from practicum.envs.text.sciworld.engine import Engine
from practicum.envs.text.sciworld.env import SciWorld
from practicum.envs.text.sciworld.gold import gold_path
from practicum.envs.text.sciworld.tasks import make_task

WANDERING = ("find-animal", "lifespan-longest-lived", "identify-life-stages-1")
"""Tasks with animals: they walk about at random while the episode goes on."""


def some_short(environment: SciWorld, count: int) -> list[Task]:
    tasks = [t for t in environment.panel("test") if t.difficulty == "short"]
    with_animals = [t for t in tasks if t.data["task"] in WANDERING]
    assert len(with_animals) >= count // 2
    rest = [t for t in tasks if t not in with_animals]
    return with_animals[: count // 2] + rest[:: len(rest) // count][: count - count // 2]


async def texts_of(environment: SciWorld, task: Task) -> list[str]:
    async with environment.open(task) as env:
        texts = [(await env.start()).text]
        for action in gold_path(task.id):
            await asyncio.sleep(0)
            result = await env.step(Action(action))
            texts.append(result.observation.text)
    return texts


async def test_episodes_in_one_process_do_not_mix_turn_by_turn(sciworld: SciWorld) -> None:
    tasks = some_short(sciworld, 6)
    alone = {task.id: await texts_of(sciworld, task) for task in tasks}
    twice = [*tasks, *tasks]
    beside = await asyncio.gather(*(texts_of(sciworld, task) for task in twice))
    assert len(sciworld.jvm_pids) == 1
    for task, texts in zip(twice, beside, strict=True):
        assert texts == alone[task.id], task.data


async def test_simplifications_of_one_episode_do_not_reach_another(sciworld: SciWorld) -> None:
    plain = next(t for t in sciworld.panel("dev") if t.data["task"] == "power-component")
    easy = make_task(
        plain.data["task"],
        plain.data["variation"],
        description=plain.prompt,
        gold=(),
        simplifications="easy",
    )
    teleport = Action("teleport to kitchen")
    async with (
        sciworld.open(plain) as before,
        sciworld.open(easy) as eased,
        sciworld.open(plain) as after,
    ):
        for env in (before, eased, after):
            await env.start()
        assert (await before.step(teleport)).is_refused
        assert not (await eased.step(teleport)).is_refused
        assert (await after.step(teleport)).is_refused


def play_in_the_original(
    engine: Engine, gateway: Any, task: Task, actions: list[str]
) -> list[tuple[str, int]]:
    """What the interface that `scienceworld` itself uses answers, in the same process."""
    parts = engine._prepare(gateway)
    engine._active = None
    parts.new_singletons()
    parts.loader.load(task.data["task"], task.data["variation"], "", False)
    parts.loader.step("look around")
    return [(parts.loader.step(a), round(100 * parts.loader.getScore())) for a in actions]


async def test_steps_answer_as_the_original_interface_does(sciworld: SciWorld) -> None:
    for task in some_short(sciworld, 4):
        actions = [*gold_path(task.id), "open door", "0", "open door", "x", "inventory", "help"]
        ours: list[tuple[str, int]] = []
        async with sciworld.open(task) as env:
            await env.start()
            for action in actions:
                result = await env.step(Action(action))
                ours.append((result.observation.text, result.info["score"]))
            original = partial(play_in_the_original, env._engine, task=task, actions=actions)
            assert ours == await env._engine.jvm.run(original)


async def test_a_task_goes_the_same_in_every_process_and_under_every_hash_seed(
    sciworld: SciWorld,
) -> None:
    task = some_short(sciworld, 4)[0]
    here = [
        transcript_hash(*await transcript(sciworld, task, sciworld.scripts[name]))
        for name in ("expert", "random")
    ]
    code = f"""
import asyncio
from practicum.envs.contract import transcript, transcript_hash
from practicum.envs.text.sciworld.env import create

async def main():
    environment = create()
    task = next(t for t in environment.panel("test") if t.id == {task.id!r})
    for name in ("expert", "random"):
        print(transcript_hash(*await transcript(environment, task, environment.scripts[name])))
    await environment.aclose()

asyncio.run(main())
"""
    started = [
        await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            code,
            env=os.environ | {"PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
        )
        for seed in ("1", "77")
    ]
    for process in started:
        out, _ = await process.communicate()
        assert out.decode().split() == here
