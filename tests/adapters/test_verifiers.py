"""Our environments under the real `verifiers`, with a chat server that knows the answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from adapters.expert_play import ExpertPlayer
from aiohttp import web
from support import TIMELESS, require_env

from practicum.core.env import Environment
from practicum.core.errors import ConfigError
from practicum.core.task import Task
from practicum.envs.registry import load_env

if find_spec("verifiers") is None:
    pytest.skip(
        "verifiers lives in a virtual environment of its own: make test-adapters",
        allow_module_level=True,
    )

import verifiers.v1 as vf

# Its libraries warn.
pytestmark = pytest.mark.filterwarnings("ignore")

FLAKY = f"{Path(__file__).with_name('flaky_textcraft.py')}:create"
ALWAYS = {"modulus": 1, "remainders": [0]}


class ChatServer:
    """Answers each conversation with the expert's next move, or as it is told."""

    def __init__(self, environment: Environment, task: Task, said: str | None = None) -> None:
        self._player = ExpertPlayer(environment, task, "react")
        self._said = said
        self.conversations: list[list[dict[str, str]]] = []
        self.status = 200

    async def answer(self, request: web.Request) -> web.Response:
        if self.status != 200:
            return web.json_response({"error": {"message": "no such model"}}, status=self.status)
        asked = await request.json()
        self.conversations.append(asked["messages"])
        text = self._said or self._player.answer(asked["messages"][-1]["content"])
        choice = {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": text},
        }
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        return web.json_response(
            {
                **{"id": "x", "object": "chat.completion", "created": 0, "model": "m"},
                **{"choices": [choice], "usage": usage},
            }
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self.answer)
        runner = web.AppRunner(app)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            await runner.cleanup()


async def play(server: ChatServer, task_id: str, env_id: str, **settings: Any) -> Any:
    taskset = {"id": "practicum-verifiers", "env": env_id, "panel": "dev"}
    options = settings.pop("options", {})
    config = vf.resolve_env_config({"taskset": {**taskset, "options": options}, **settings})
    env = vf.load_environment(config)
    (task,) = env.taskset.include(ids=[task_id])
    async with server.running() as url, env.serving():
        context = vf.ModelContext(
            model="m",
            client=vf.EvalClientConfig(base_url=url, api_key_var="NO_SUCH_KEY"),
            sampling=vf.SamplingConfig(),
        )
        (slot,) = env.slots(task)
        return await env.run_slot(slot, context)


@pytest.mark.parametrize("env_id", TIMELESS)
async def test_the_expert_wins(env_id: str) -> None:
    require_env(env_id)
    environment = load_env(env_id)
    task = environment.panel("dev").tasks[0]
    server = ChatServer(environment, task)
    episode = await play(server, task.id, env_id)
    assert episode.ok, episode.errors
    (trace,) = episode.traces
    assert trace.rewards["outcome"].score > 0.9
    assert trace.metrics["is_success"] == 1.0
    assert trace.info["stop"] == "done"
    assert trace.num_turns == len(server.conversations)
    last = server.conversations[-1]
    assert last[0]["role"] == "system" and environment.rules in last[0]["content"]
    for shorter, longer in zip(server.conversations, server.conversations[1:], strict=False):
        assert longer[: len(shorter)] == shorter, "messages only grow"


def first_task() -> tuple[Environment, Task]:
    environment = load_env("textcraft")
    return environment, environment.panel("dev").tasks[0]


async def test_a_broken_world_fails_the_episode_and_has_no_reward() -> None:
    environment, task = first_task()
    episode = await play(ChatServer(environment, task), task.id, FLAKY, options=ALWAYS)
    assert not episode.ok
    assert "the world fell apart" in episode.errors[0].message
    (trace,) = episode.traces
    assert trace.num_turns == 2 and trace.rewards == {}


async def test_a_model_that_cannot_be_reached_is_a_fault() -> None:
    environment, task = first_task()
    server = ChatServer(environment, task)
    server.status = 404
    episode = await play(server, task.id, "textcraft")
    assert not episode.ok
    assert all(trace.rewards == {} for trace in episode.traces)
    assert any("no such model" in error.message for error in episode.traces[0].errors)


async def test_what_the_model_gets_wrong_is_told_to_it_until_the_turns_are_over() -> None:
    environment, task = first_task()
    server = ChatServer(environment, task, said="I do not know.")
    episode = await play(server, task.id, "textcraft", limits={"max_turns": 3})
    assert episode.ok
    (trace,) = episode.traces
    assert trace.rewards["outcome"].score == 0.0
    assert (trace.metrics["num_invalid"], trace.info["stop"]) == (3.0, "turn-limit")
    assert "held no action" in server.conversations[-1][-1]["content"]


async def test_a_limit_of_verifiers_cuts_the_episode_short() -> None:
    environment, task = first_task()
    server = ChatServer(environment, task, said="Action: inventory")
    episode = await play(server, task.id, "textcraft", player={"max_turns": 2})
    (trace,) = episode.traces
    assert trace.rewards["outcome"].score == 0.0
    assert (trace.num_turns, trace.info["stop"]) == (2, "context-limit")


def test_what_it_does_not_know_is_refused() -> None:
    for wrong in ({"colour": 1}, {"format": "reakt"}, {"panel": "no-such"}, {"env": ""}):
        with pytest.raises((ValueError, ConfigError)):
            taskset = {"id": "practicum-verifiers", "env": "textcraft", **wrong}
            list(vf.load_environment(vf.resolve_env_config({"taskset": taskset})).taskset)
    with pytest.raises(ValueError, match="max_turn"):
        taskset = {"id": "practicum-verifiers", "env": "textcraft"}
        vf.resolve_env_config({"taskset": taskset, "limits": {"max_turn": 1}})
