"""Our environments behind OpenEnv's real server, played by its real client."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import requests
from adapters.expert_play import ExpertPlayer
from support import TIMELESS, require_env

from practicum.adapters.stepwise import World
from practicum.cli.main import main
from practicum.core.sockets import listen, url_of
from practicum.envs.registry import load_env

if find_spec("openenv") is None:
    pytest.skip(
        "OpenEnv lives in a virtual environment of its own: make test-adapters",
        allow_module_level=True,
    )

import uvicorn
from openenv.cli._validation import validate_running_environment
from openenv.core.generic_client import GenericEnvClient

from practicum.adapters.openenv.server import WEBSOCKETS, make_app

FLAKY = f"{Path(__file__).with_name('flaky_textcraft.py')}:create"
ALWAYS = {"modulus": 1, "remainders": [0]}
TOKEN = "a-token-of-some-length"


@contextmanager
def serving(world: World, **terms: Any) -> Iterator[str]:
    """OpenEnv's server in a thread of this process; gives the URL."""
    config = uvicorn.Config(make_app(world, **terms), log_level="warning", ws=WEBSOCKETS)
    server = uvicorn.Server(config)
    try:
        with listen("127.0.0.1", 0) as listener:
            listener.listen()
            thread = Thread(target=server.run, kwargs={"sockets": [listener]})
            thread.start()
            try:
                yield url_of(listener)
            finally:
                server.should_exit = True
                thread.join()
    finally:
        world.close()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(World("textcraft")) as url:
        yield url


def play(client: Any, player: ExpertPlayer, result: Any) -> Any:
    total = 0.0
    while not result.done:
        result = client.step({"text": player.answer(result.observation["text"])})
        total += result.reward
    assert result.metadata["episode_reward"] == total
    return result


@pytest.mark.parametrize("env_id", TIMELESS)
def test_the_expert_wins(env_id: str) -> None:
    require_env(env_id)
    environment = load_env(env_id)
    tasks = {task.id: task for task in environment.panel("dev")}
    with serving(World(env_id)) as url, GenericEnvClient(url).sync() as client:
        result = client.reset(split="dev", index=0)
        task = tasks[result.observation["task_id"]]
        assert task.id == min(tasks)
        result = play(client, ExpertPlayer(environment, task), result)
        assert result.metadata["is_success"] and result.metadata["stop"] == "done"
        state = client.state()
        assert (state["task_id"], state["step_count"] > 0) == (task.id, True)
        assert environment.rules in state["system"]


def test_openenv_finds_no_fault(url: str) -> None:
    report = validate_running_environment(url)
    assert report["passed"], report["criteria"]


def test_a_seed_and_a_name_choose_the_task(url: str) -> None:
    with GenericEnvClient(url).sync() as client:
        drawn = [client.reset(seed=seed).observation["task_id"] for seed in (3, 3, 4)]
        assert drawn[0] == drawn[1] != drawn[2]
        assert drawn[0] == "textcraft-072ee76d1f01742b", "the same on every machine"
        assert client.reset(task_id=drawn[2]).observation["task_id"] == drawn[2]
        for wrong, said in {
            "task": "did you mean 'task_id'",
            "task_id": "not in split 'train'",
            "split": "unknown panel",
        }.items():
            with pytest.raises(RuntimeError, match=said):
                client.reset(**{wrong: "x"})


def test_the_tasks_can_be_looked_through(url: str) -> None:
    def ask(path: str, **body: Any) -> Any:
        return requests.post(f"{url}/textcraft/{path}", json=body, timeout=20).json()

    splits = requests.get(f"{url}/textcraft/splits", timeout=20).json()
    assert {"train", "dev", "test"} <= {split["name"] for split in splits}
    panel = load_env("textcraft").panel("dev")
    assert ask("num_tasks", split="dev")["num_tasks"] == len(panel)
    first = ask("task", split="dev", index=0)["task"]
    assert first["id"] == min(task.id for task in panel)
    assert ask("task_range", split="dev", start=0, stop=1)["tasks"] == [first]


def test_sessions_do_not_mix_and_are_counted() -> None:
    with (
        serving(World("textcraft"), capacity=2) as url,
        GenericEnvClient(url).sync() as one,
        GenericEnvClient(url).sync() as other,
    ):
        assert one.reset(seed=1).observation != other.reset(seed=2).observation
        one.step({"text": "inventory"})
        assert (one.state()["step_count"], other.state()["step_count"]) == (1, 0)
        third = GenericEnvClient(url).sync()
        with pytest.raises(RuntimeError, match="CAPACITY_REACHED"):
            third.reset()
        third.close()


def test_a_broken_world_is_an_error_and_no_reward() -> None:
    world = World(FLAKY, format_name="react", limits={"max_turns": 2}, options=ALWAYS)
    with serving(world) as url, GenericEnvClient(url).sync() as client:
        client.reset(seed=0)
        result = client.step({"text": "get 1 stick"})
        assert result.metadata["format_error"] == "no-action"
        client.step({"text": "Action: inventory"})
        client.reset(seed=0)
        client.step({"text": "Action: inventory"})
        with pytest.raises(RuntimeError, match="the world fell apart"):
            client.step({"text": "Action: inventory"})
        with pytest.raises(RuntimeError, match="no episode is under way"):
            client.step({"text": "Action: inventory"})
        assert not client.reset(seed=0).done


def test_the_command_serves_those_with_the_token() -> None:
    process = subprocess.Popen(
        [
            *(sys.executable, "-W", "ignore", "-m", "practicum", "serve", "textcraft"),
            *("--dialect", "openenv", "--token-env", "TOKEN", "--json"),
        ],
        stdout=subprocess.PIPE,
        env={**os.environ, "TOKEN": TOKEN},
        text=True,
    )
    try:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        assert requests.get(f"{url}/health", timeout=20).status_code == 401
        stranger = GenericEnvClient(url).sync()
        with pytest.raises(ConnectionError):
            stranger.reset()
        stranger.close()
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        with GenericEnvClient(url, headers=bearer).sync() as client:
            assert client.reset(seed=3).observation["text"]
    finally:
        process.terminate()
        assert process.wait(20) == 0
        assert process.stdout is not None
        process.stdout.close()


def test_what_it_cannot_do_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "textcraft", "--dialect", "openenv", "--workers", "2"]) == 2
    assert "--workers 1" in capsys.readouterr().err
    assert main(["serve", "textcraft", "--dialect", "openenv", "--host", "0.0.0.0"]) == 2
    assert "give --token-env VAR" in capsys.readouterr().err
