"""The built-in world against TextWorld's engine, and ALFWorld's game files played by it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from envs.text.alfworld.walks import LAB, LAB_COMMANDS, RECORDED, follow, some_tasks, walk
from support import require

from practicum.core.canonical import content_hash
from practicum.core.env import Environment
from practicum.core.errors import ConfigError, EnvError, MachineError
from practicum.core.message import Action
from practicum.core.task import Task
from practicum.envs.contract import transcript, transcript_hash
from practicum.envs.text.alfworld import games, pddl
from practicum.envs.text.alfworld.engine import Workers
from practicum.envs.text.alfworld.env import create
from practicum.envs.text.alfworld.goals import LOOK, SIMPLE, TWO, Goal
from practicum.envs.text.alfworld.tasks import make_task

SMALL = {"bed": [["book 1"]], "desk": [["desklamp 1", "pen 1"]], "drawer": [["pen 2"], []]}
SMALL_TASKS = [
    make_task(Goal(LOOK, "book", "desklamp"), SMALL, [], split="train"),
    make_task(Goal(SIMPLE, "book", "drawer"), SMALL, [], split="dev"),
    make_task(Goal(TWO, "pen", "desk"), SMALL, [], split="dev"),
    make_task(Goal(SIMPLE, "pen", "drawer"), {**SMALL, "drawer": [[]]}, [], split="test"),
]


def require_textworld() -> None:
    require("textworld", games.INSTALL)
    require("fast_downward", games.INSTALL)
    require("alfworld", "pip install --no-deps alfworld")


@pytest.fixture(scope="module")
def games_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our own tasks as ALFWorld's data folder has them."""
    require_textworld()
    root = tmp_path_factory.mktemp("alfworld") / "json_2.1.1"
    for task in SMALL_TASKS:
        folder = (
            root / games.FOLDERS[task.split] / f"{task.difficulty}-X-None-Y-1" / f"trial_{task.id}"
        )
        folder.mkdir(parents=True)
        game = pddl.game_of(task)
        (folder / games.GAME_FILE).write_text(json.dumps(game), encoding="utf-8")
    unsolvable = root / "valid_seen" / "pick_and_place_simple-A-None-B-2" / "trial_1"
    unsolvable.mkdir(parents=True)
    (unsolvable / games.GAME_FILE).write_text(json.dumps({**game, "solvable": False}))
    return root.parent


@pytest.fixture
async def environment(games_dir: Path) -> AsyncIterator[Environment]:
    environment = create(engine="textworld", games=games_dir)
    yield environment
    await environment.aclose()


def test_built_in_world_answers_as_the_recorded_engine() -> None:
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    assert len(recorded) == 13
    assert recorded[0]["commands"] == LAB_COMMANDS
    for one in recorded:
        ours = follow(Task(**one["task"]), one["commands"])
        shown = [[said, content_hash(possible)[:12], won] for said, possible, won in ours]
        for command, mine, theirs in zip(
            ["", *one["commands"]], shown, one["answers"], strict=True
        ):
            assert mine == theirs, f"{one['task']['id']}: {command}"


async def test_built_in_world_answers_as_the_installed_engine() -> None:
    require_textworld()
    workers = Workers(max_workers=2)
    plans = [(LAB, LAB_COMMANDS), *((task, walk(task, 15)) for task in some_tasks(2))]

    async def compare(task: Task, commands: list[str]) -> None:
        answers = follow(task, commands)
        async with workers.open(pddl.game_of(task)) as game:
            assert game.first == next(answers)
            for command, ours in zip(commands, answers, strict=True):
                assert await game.step(command) == ours, f"{task.id}: {command}"

    await asyncio.gather(*(compare(*plan) for plan in plans))
    await workers.aclose()


async def test_game_files_play_byte_for_byte_as_the_tasks_they_were_made_from(
    environment: Environment,
) -> None:
    built_in = create()
    expert = environment.scripts["expert"]
    assert environment.panel_names() == ("train", "dev", "test")
    found = [task for name in environment.panel_names() for task in environment.panel(name)]
    assert len(found) == len(SMALL_TASKS)
    for game in found:
        game.verify()
        task = next(t for t in SMALL_TASKS if t.id in game.family)
        assert (game.prompt, game.split, game.difficulty) == (
            task.prompt,
            task.split,
            task.difficulty,
        )
    # At once, to see that games in one process do not mix.
    played = await asyncio.gather(*(transcript(environment, g, expert) for g in [*found, *found]))
    for game, (turns, last) in zip([*found, *found], played, strict=True):
        task = next(t for t in SMALL_TASKS if t.id in game.family)
        alone = await transcript(built_in, task, expert)
        assert last is not None and last.is_success
        assert transcript_hash(turns, last) == transcript_hash(*alone)


async def test_event_loop_goes_on_while_a_game_loads(environment: Environment) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    ticking = asyncio.create_task(tick())
    async with environment.open(environment.panel("train").tasks[0]) as env:
        refused = await env.step(Action("9" * 50_000))
    ticking.cancel()
    assert refused.is_refused
    assert ticks > 10


async def test_cancelled_episode_leaves_a_working_engine(environment: Environment) -> None:
    task = environment.panel("train").tasks[0]
    opening = asyncio.create_task(transcript(environment, task, environment.scripts["random"]))
    await asyncio.sleep(0.2)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    _, last = await transcript(environment, task, environment.scripts["expert"])
    assert last is not None and last.is_success


async def test_dead_engine_is_a_machine_error_and_the_next_episode_works(games_dir: Path) -> None:
    environment = games.ALFWorldGames(games.find_games_dir(games_dir))
    task = environment.panel("train").tasks[0]
    with pytest.raises(MachineError) as caught:
        async with environment.open(task) as env:
            await env.start()
            (worker,) = environment._workers._workers
            os.kill(*worker.executor._processes, signal.SIGKILL)
            await env.step(Action("go to desk 1"))
    assert caught.value.kind == "engine-died"
    _, last = await transcript(environment, task, environment.scripts["expert"])
    assert last is not None and last.is_success
    await environment.aclose()


async def test_other_file_under_the_same_name_is_an_error(games_dir: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(games_dir, tmp_path / "copy")
    environment = create(engine="textworld", games=copy)
    task = environment.panel("test").tasks[0]
    path = copy / "json_2.1.1" / task.data["game"]
    path.write_text(path.read_text().replace("pen_bar_998", "pen_bar_997"))
    with pytest.raises(EnvError, match="not the file") as caught:
        async with environment.open(task):
            pass
    assert caught.value.kind == "game-changed"
    path.unlink()
    with pytest.raises(EnvError) as caught:
        async with environment.open(task):
            pass
    assert caught.value.kind == "game-missing"
    with pytest.raises(EnvError, match="engine='builtin'"):
        async with environment.open(LAB):
            pass
    await environment.aclose()


def test_games_are_found_where_the_user_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(games.DATA_VARIABLE, raising=False)
    with pytest.raises(ConfigError, match="games=FOLDER or set ALFWORLD_DATA"):
        games.find_games_dir()
    with pytest.raises(ConfigError, match="is it ALFWorld's data"):
        games.find_games_dir(tmp_path)
    (tmp_path / "json_2.1.1" / "valid_unseen").mkdir(parents=True)
    monkeypatch.setenv(games.DATA_VARIABLE, str(tmp_path))
    assert games.find_games_dir() == tmp_path / "json_2.1.1"
    assert games.find_games_dir(tmp_path / "json_2.1.1") == tmp_path / "json_2.1.1"


def test_without_textworld_the_line_to_install_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train").mkdir()
    monkeypatch.setattr(games, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'textworld\[pddl\]"):
        create(engine="textworld", games=tmp_path)


def test_exported_problem_without_alfworld_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pddl, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="pip install --no-deps 'alfworld"):
        pddl.game_of(LAB)
