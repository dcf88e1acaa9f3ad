"""Tasks are their content: the same level everywhere, checked, and split by family."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from importlib import import_module

import pytest

from practicum.core.errors import ConfigError, EnvError
from practicum.core.task import Task
from practicum.envs.text.babyai import engine, tasks
from practicum.envs.text.babyai.env import create
from practicum.envs.text.babyai.freeze import TASKS_PER_LEVEL, build_level
from practicum.envs.text.babyai.tasks import PANELS, make_agentgym_task, make_task
from practicum.envs.text.babyai.world import Game

SPLITS = ("train", "dev", "test")

FIRST_TEXTS = "cf260fa8ede99247c7f537f7357d8fe6002349d8c376f76fde67828e5903a39a"
"""Hash over the first messages of the dev panel: pins minigrid's drawing and our words."""

PROBE = """
import asyncio
from practicum.core.canonical import content_hash
from practicum.envs.contract import transcript, transcript_hash
from practicum.envs.text.babyai.env import create
from practicum.envs.text.babyai.world import Game

dev = create().panel("dev").tasks
print(content_hash([Game(t.data["level"], t.data["seed"]).first_text for t in dev]))

async def play():
    pictured = create(images=True)
    for task in dev[::30]:
        for script in pictured.scripts.values():
            print(transcript_hash(*await transcript(pictured, task, script)))

asyncio.run(play())
"""


def test_every_level_is_in_every_split() -> None:
    assert len(engine.LEVELS) == len(set(engine.LEVELS)) == 40
    for split in SPLITS:
        counts = Counter(task.difficulty for task in PANELS.load(split))
        assert counts == dict.fromkeys(engine.LEVELS, TASKS_PER_LEVEL[split])


def test_no_layout_with_its_mission_is_in_two_splits_or_levels() -> None:
    every = [task for split in SPLITS for task in PANELS.load(split)]
    assert len({task.data["layout"] for task in every}) == len(every)
    homes: dict[str, set[str]] = {}
    for task in every:
        homes.setdefault(task.family.partition("/")[2], set()).add(task.split)
    assert all(len(splits) == 1 for splits in homes.values())


def test_short_panels_are_parts_of_the_splits() -> None:
    for split in SPLITS:
        whole = [task.id for task in PANELS.load(split)]
        short = [task.id for task in PANELS.load(f"{split}-20")]
        assert short == [i for i in whole if i in set(short)]
        assert 0.5 < len(short) / len(whole) < 1


@pytest.mark.parametrize("level", ["OpenRedDoor", "GoToObjS6", "OpenDoorsOrderN4Debug", "KeyInBox"])
def test_a_level_frozen_again_gives_the_shipped_tasks(level: str) -> None:
    built = [task for task, _ in build_level(level)]
    for split in SPLITS:
        shipped = [task for task in PANELS.load(split) if task.difficulty == level]
        assert [task for task in built if task.split == split] == shipped


def test_tasks_made_again_are_the_shipped_ones() -> None:
    shipped = [*PANELS.load("dev"), *PANELS.load("test"), *PANELS.load("train").tasks[::6]]
    for task in shipped:
        assert make_task(task.data["level"], task.data["seed"], split=task.split) == task


def test_episodes_are_the_same_whatever_the_hash_seed() -> None:
    outputs = []
    for hash_seed in ("0", "4242"):
        env = {**os.environ, "PYTHONHASHSEED": hash_seed}
        run = subprocess.run(
            [sys.executable, "-c", PROBE], env=env, capture_output=True, text=True, check=True
        )
        outputs.append(run.stdout.split())
    assert outputs[0] == outputs[1]
    assert outputs[0][0] == FIRST_TEXTS


def test_a_turned_layout_is_the_same_family_and_another_room_is_not() -> None:
    families = {}
    for seed in range(60):
        world = engine.open_level("OpenRedDoor", seed)
        door = next(c for c in world.grid.grid if c is not None and c.type == "door")
        families.setdefault(int(door.cur_pos[1]), set()).add(engine.family(world))
    assert len(families) == 3  # three places for the door
    assert all(len(names) == 1 for names in families.values())  # wherever the player starts
    assert len({name for names in families.values() for name in names}) == 3


def test_agentgym_indices_name_level_and_seed() -> None:
    task = make_agentgym_task(1722)
    assert (task.data["level"], task.data["seed"]) == ("GoToRedBallNoDists", 43)
    assert task.prompt == "go to the red ball"
    assert make_agentgym_task(39).data["level"] == "BossLevelNoUnlock"


async def test_another_layout_than_the_frozen_one_is_an_error() -> None:
    task = PANELS.load("dev").tasks[0]
    other = Task.create(task.env_id, task.prompt, {**task.data, "layout": "0" * 16})
    async with create().open(other) as env:
        with pytest.raises(EnvError, match="draws levels differently") as caught:
            await env.start()
    assert caught.value.kind == "task-mismatch"


def test_an_unknown_level_is_the_callers_mistake() -> None:
    with pytest.raises(ConfigError, match="did you mean 'GoToDoor'"):
        make_task("GoToDor", 1)


def test_drawing_a_level_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    for seed in range(5):
        Game("BossLevel", seed)
        Game("GoToRedBlueBall", seed)
    assert capsys.readouterr() == ("", "")


def test_without_minigrid_the_install_line_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "minigrid", None)
    engine._load.cache_clear()
    with pytest.raises(ConfigError, match=r"pip install 'practicum\[babyai\]'"):
        tasks.make_task("GoToDoor", 1)


def test_a_setting_that_changes_success_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    verifier = import_module("minigrid.envs.babyai.core.verifier")
    monkeypatch.setattr(verifier, "use_done_actions", "1")
    engine._load.cache_clear()
    with pytest.raises(ConfigError, match="BABYAI_DONE_ACTIONS"):
        tasks.make_task("GoToDoor", 1)


def test_importing_the_environment_imports_no_engine() -> None:
    probe = (
        "import sys, practicum.envs.text.babyai.env as env; env.create().panel('dev');"
        "print([m for m in ('minigrid', 'gymnasium', 'pygame', 'torch') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
