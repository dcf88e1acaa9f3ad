"""The server: who may use it, how much, for how long, and AgentGym's forms to the letter."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import aiohttp
import pytest
from envs.http.fault_proxy import QUICK
from envs.http.gallery import Gallery
from support import require

from practicum.core.env import StepResult
from practicum.core.errors import ConfigError, EnvError
from practicum.core.message import Action, Observation
from practicum.core.retry import Backoff
from practicum.core.task import Panel, Task
from practicum.envs import registry
from practicum.envs.contract import transcript
from practicum.envs.http.app import DialectName, Terms
from practicum.envs.http.remote import Address, create
from practicum.envs.http.server import running, serve
from practicum.envs.http.taskbook import TaskBook

TEXTCRAFT = registry.load_env("textcraft")
ENVS = {"textcraft": TEXTCRAFT}
TASK = TEXTCRAFT.panel("dev").tasks[0]
BOTH: tuple[DialectName, ...] = ("agentgym", "native")


async def post(session: aiohttp.ClientSession, url: str, body: Any) -> tuple[int, Any, Any]:
    async with session.post(url, json=body) as response:
        return response.status, await response.json(), response.headers


async def test_agentgyms_textcraft_client_finds_what_it_expects() -> None:
    async with running(ENVS, Terms("agentgym")) as (url, _), aiohttp.ClientSession() as http:
        body = {"minecraft_dir": "agentenv_textcraft/", "commands": None, "goal": None}
        _, created, _ = await post(http, f"{url}/create", body)
        assert created["observation"].startswith("Crafting commands:")
        assert created["reward"] == 0 and created["done"] is False
        session_id = created["id"]
        _, first, _ = await post(http, f"{url}/reset", {"id": session_id, "data_idx": 3})
        legacy = TEXTCRAFT.panel("legacy").tasks
        goal = legacy[3].data["goal"].replace("_", " ")
        assert first["observation"].endswith(f"Goal: craft {goal}.")
        assert first["practicum"]["task"] == legacy[3].id
        _, again, _ = await post(http, f"{url}/reset", {"id": session_id, "data_idx": 544 + 3})
        assert again["observation"] == first["observation"]
        _, step, _ = await post(http, f"{url}/step", {"id": session_id, "action": "inventory"})
        assert step["observation"] == "Inventory: You are not carrying anything."
        assert step["reward"] == 0 and step["done"] is False
        async with http.get(f"{url}/observation?id={session_id}") as response:
            assert await response.json() == step["observation"]
        async with http.get(f"{url}/") as response:
            assert await response.json() == "ok"
        assert (await post(http, f"{url}/close", {"id": session_id}))[1] is True
        assert (await post(http, f"{url}/close", {"id": session_id}))[1] is False
        status, lost, _ = await post(http, f"{url}/step", {"id": session_id, "action": "x"})
        assert status == 200 and "error" in lost and lost["kind"] == "lost-session"


@pytest.mark.parametrize("body", [{}, {"id": "zero", "action": "x"}, {"id": 1}, [1], None])
async def test_a_malformed_request_is_422(body: Any) -> None:
    async with running(ENVS, Terms("agentgym")) as (url, _), aiohttp.ClientSession() as http:
        status, answer, _ = await post(http, f"{url}/step", body)
        known = isinstance(body, dict) and body.get("id") == 1
    assert status == (200 if known else 422), answer
    assert "error" in answer


async def test_an_episode_takes_no_steps_after_its_end_or_before_its_start() -> None:
    expert = TEXTCRAFT.scripts["expert"]
    for dialect in BOTH:
        async with running(ENVS, Terms(dialect)) as (url, _server):
            remote = create(url, "textcraft", backoff=QUICK)
            async with remote.open(TASK) as env:
                await env.start()
                turns, _ = await transcript(TEXTCRAFT, TASK, expert)
                for turn in turns:
                    assert turn.action is not None
                    result = await env.step(turn.action)
                assert result.is_done
                with pytest.raises(EnvError) as caught:
                    await env.step(Action("inventory"))
                assert caught.value.kind == "not-playing"
            await remote.aclose()


@pytest.mark.parametrize("dialect", BOTH)
async def test_beyond_capacity_clients_are_told_when_to_come_back(dialect: DialectName) -> None:
    async with running(ENVS, Terms(dialect, capacity=2, ttl_s=30)) as (url, server):
        patient = create(url, "textcraft", backoff=Backoff(3, 0.02, 6))
        hasty = create(url, "textcraft", backoff=Backoff(1))
        async with patient.open(TASK), patient.open(TASK):
            with pytest.raises(EnvError) as caught:
                async with hasty.open(TASK):
                    pass
            assert caught.value.kind == "busy"
            assert caught.value.asked_s >= 1  # type: ignore[attr-defined]
        async with hasty.open(TASK) as env:
            assert (await env.start()).text

        async def play() -> None:
            async with patient.open(TASK) as env:
                await env.start()
                await asyncio.sleep(0.01)

        await asyncio.gather(*(play() for _ in range(6)))  # in the end each gets a place
        for client in (patient, hasty):
            await client.aclose()
        assert len(server.leases) == 0


@pytest.mark.parametrize("dialect", BOTH)
async def test_1000_sessions_of_a_client_that_dies_are_gone_after_one_ttl(
    dialect: DialectName,
) -> None:
    async with running(ENVS, Terms(dialect, ttl_s=1.5)) as (url, server):
        await _open_and_die(url, dialect, 1000)
        assert len(server.leases) > 0
        await asyncio.sleep(1.8)  # the time to live, and a slow machine's patience
        assert len(server.leases) == 0
        async with aiohttp.ClientSession() as http, http.get(f"{url}/metrics") as response:
            text = await response.text()
    assert 'practicum_opened_total{env="textcraft",worker="0"} 1000' in text
    assert 'practicum_expired_total{env="textcraft",worker="0"} 1000' in text
    assert 'practicum_sessions{worker="0"} 0' in text


async def _open_and_die(url: str, dialect: DialectName, count: int) -> None:
    """Open sessions from outside our client and never speak again."""
    async with aiohttp.ClientSession() as http:
        if dialect == "native":
            async with http.ws_connect(f"{url}/ws") as socket:
                for _ in range(count):
                    message = {"type": "open", "env": "textcraft", "task": TASK.id}
                    await socket.send_json(message)
                    assert (await socket.receive_json())["type"] == "opened"
        else:
            for _ in range(count):
                assert (await post(http, f"{url}/create", {}))[0] == 200


@pytest.mark.parametrize("dialect", BOTH)
async def test_256_sessions_at_once_are_256_sessions(dialect: DialectName) -> None:
    tasks = TEXTCRAFT.panel("all").tasks[:256]
    async with running(ENVS, Terms(dialect, capacity=256)) as (url, server):
        remote = create(url, "textcraft")
        everyone = asyncio.Barrier(256)

        async def play(task: Any, number: int) -> tuple[str, str]:
            async with remote.open(task) as env:
                first = (await env.start()).text
                await everyone.wait()
                assert len(server.leases) == 256
                await env.step(Action(f"get {number + 1} apple"))
                await everyone.wait()
                return first, (await env.step(Action("inventory"))).observation.text

        seen = await asyncio.gather(*(play(task, i) for i, task in enumerate(tasks)))
        await remote.aclose()
    for i, (task, (first, held)) in enumerate(zip(tasks, seen, strict=True)):
        assert first.endswith(f"craft {task.data['goal'].replace('_', ' ')}.")
        assert held == f"Inventory: [apple] ({i + 1}) "


@pytest.mark.parametrize("dialect", BOTH)
async def test_a_token_is_needed_and_never_logged(
    dialect: DialectName, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with running(ENVS, Terms(dialect, token="s3cret-word")) as (url, _):
        for token in (None, "s3cret-wore", ""):
            intruder = create(url, "textcraft", token, backoff=QUICK)
            with pytest.raises(EnvError) as caught:
                async with intruder.open(TASK):
                    pass
            assert caught.value.kind == "unauthorized"
            assert "s3cret" not in str(caught.value)
            await intruder.aclose()
        friend = create(url, "textcraft", "s3cret-word")
        async with friend.open(TASK) as env:
            await env.start()
        await friend.aclose()
        async with aiohttp.ClientSession() as http:
            async with http.get(f"{url}/health") as response:
                assert (await response.json())["status"] == "ok"
            async with http.get(f"{url}/metrics") as response:
                assert response.status == 401
    assert "s3cret-word" not in caplog.text


async def test_a_web_page_may_not_use_a_server_without_token() -> None:
    page = {"Origin": "http://evil.example"}
    async with running(ENVS, Terms("native")) as (url, _), aiohttp.ClientSession() as http:
        async with http.get(f"{url}/describe", headers=page) as response:
            assert response.status == 403
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await http.ws_connect(f"{url}/ws", headers=page)


async def test_the_server_describes_itself() -> None:
    async with running(ENVS, Terms("native")) as (url, _), aiohttp.ClientSession() as http:
        async with http.get(f"{url}/describe") as response:
            described = await response.json()
        async with http.get(f"{url}/health") as response:
            health = await response.json()
    dev = TEXTCRAFT.panel("dev")
    assert described["envs"]["textcraft"]["panels"]["dev"] == {"tasks": len(dev), "hash": dev.hash}
    assert described["dialect"] == "native" and described["practicum"]
    assert health["sessions"] == 0 and health["workers"] == 1


async def test_several_environments_have_a_path_each() -> None:
    envs = {**ENVS, "gallery": Gallery()}
    for dialect in BOTH:
        async with running(envs, Terms(dialect)) as (url, _):
            remote = create(url, "textcraft")
            async with remote.open(TASK) as env:
                assert (await env.start()).text.startswith("Crafting")
            await remote.aclose()
            absent = create(url, "maze", backoff=QUICK)
            with pytest.raises(EnvError) as caught:
                async with absent.open(absent.panel("agentgym").tasks[0]):
                    pass
            assert caught.value.kind == "wrong-environment"
            await absent.aclose()


async def test_too_large_a_request_is_refused() -> None:
    for dialect in BOTH:
        async with running(ENVS, Terms(dialect, max_request_bytes=20_000)) as (url, _server):
            remote = create(url, "textcraft", backoff=QUICK)
            async with remote.open(TASK) as env:
                await env.start()
                with pytest.raises(EnvError) as caught:
                    await env.step(Action("x" * 30_000))
            assert caught.value.kind in ("bad-request", "connection")
            async with remote.open(TASK) as env:
                await env.start()
            await remote.aclose()


async def test_the_dialect_can_be_given_or_found() -> None:
    for dialect, scheme in (("agentgym", "agentgym+http"), ("native", "practicum+ws")):
        async with running(ENVS, Terms(dialect)) as (url, _):  # type: ignore[arg-type]
            for given in (url, url.replace("http", scheme)):
                remote = create(given, "textcraft")
                async with remote.open(TASK) as env:
                    await env.start()
                await remote.aclose()
            other = "practicum+ws" if dialect == "agentgym" else "agentgym+http"
            wrong = create(url.replace("http", other), "textcraft")
            with pytest.raises(EnvError) as caught:
                async with wrong.open(TASK):
                    pass
            assert caught.value.kind == "wrong-dialect"
            await wrong.aclose()


def test_a_server_url_is_read_or_refused() -> None:
    assert Address.parse("http://h:1/") == Address("http://h:1", "")
    assert Address.parse("agentgym+http://h:1/x") == Address("http://h:1/x", "agentgym")
    for url in ("h:1", "ftp://h", "practicum+ws://", "http://h?x=1"):
        with pytest.raises(ConfigError):
            Address.parse(url)


def test_serving_beyond_this_machine_needs_a_token() -> None:
    with pytest.raises(ConfigError, match="token"):
        serve(["textcraft"], host="0.0.0.0")
    with pytest.raises(ConfigError, match="empty"):
        serve(["textcraft"], token=" ")
    with pytest.raises(ConfigError, match="workers"):
        serve(["textcraft"], workers=0)


def test_environments_that_only_agentgym_has_are_played_by_index() -> None:
    maze = create("agentgym+http://127.0.0.1:1", "maze")
    assert maze.panel_names() == ("agentgym",) and len(maze.panel("agentgym")) == 26
    with pytest.raises(ConfigError):
        maze.panel("test")
    with pytest.raises(ConfigError):
        create("http://127.0.0.1:1", "no-such-env")


class Named(Gallery):
    """A small environment under the name of one of AgentGym's."""

    def __init__(self, env_id: str) -> None:
        self.id = env_id
        self.task = Task.create(env_id, "Look.", {"task": "boil", "variation": 4}, split="dev")

    def panel(self, name: str) -> Panel:
        return Panel(name, (self.task,) if name == "dev" else ())

    async def start(self) -> Observation:
        return Observation("Look.\nA room.\nAVAILABLE ACTIONS: look, win")

    async def step(self, action: Action) -> StepResult:
        is_win = action.text == "win"
        text = "Done." if is_win else "Hm.\nAVAILABLE ACTIONS: look, win"
        return StepResult(Observation(text), 0.5, is_done=is_win, is_success=is_win)


# What AgentGym's own clients send and read, one row per client.
CLIENTS: dict[str, tuple[Any, str, dict[str, Any], set[str], set[str]]] = {
    "babyai": (None, "id", {"data_idx": 0}, {"observation", "reward", "score", "done"},
               {"observation", "reward", "score", "done"}),
    "sciworld": (None, "id", {"data_idx": 0},
                 {"task_name", "var_num", "task_description", "observation", "score"},
                 {"observation", "reward", "score", "done"}),
    "alfworld": (None, "id", {"game": 0, "world_type": "Text"},
                 {"id", "observation", "available_actions", "task_type"},
                 {"observation", "reward", "available_actions", "done"}),
    "webshop": (None, "env_idx", {"session_id": 0}, set(), {"state", "reward", "done", "info"}),
    "sqlgym": (None, "env_idx", {"item_id": 0}, set(), {"state", "reward", "done", "info"}),
    "searchqa": ({"id": 0}, "env_idx", {"id": 0}, set(),
                 {"observation", "reward", "done", "info"}),
}  # fmt: skip


@pytest.mark.parametrize("env_id", CLIENTS)
async def test_agentgyms_clients_find_the_fields_they_read(env_id: str) -> None:
    create_body, key, reset_body, reset_fields, step_fields = CLIENTS[env_id]
    envs = {env_id: Named(env_id)}
    async with running(envs, Terms("agentgym")) as (url, server), aiohttp.ClientSession() as http:
        async with http.post(f"{url}/create", json=create_body) as response:
            created = await response.json()
        session_id = created if key == "env_idx" else created["id"]
        assert isinstance(session_id, int)
        _, first, _ = await post(http, f"{url}/reset", {key: session_id, **reset_body})
        if reset_fields:
            assert reset_fields <= set(first)
        else:
            text = first[0] if isinstance(first, list) else first
            assert text.startswith("Look.")
            async with http.get(f"{url}/observation?{key}={session_id}") as response:
                assert await response.json() == text
        _, step, _ = await post(http, f"{url}/step", {key: session_id, "action": "win"})
        assert step_fields <= set(step)
        assert step["done"] is True
        if env_id == "sciworld":
            assert step["score"] == 50 and first["var_num"] == 4
            assert first["task_description"] + "\n" + first["observation"] == (
                "Look.\nA room.\nAVAILABLE ACTIONS: look, win"
            )
        if env_id == "alfworld":
            assert first["available_actions"] == ["look", "win"]
            assert first["observation"] == "Look.\nA room."
        finished, answer, _ = await post(http, f"{url}/step", {key: session_id, "action": "win"})
        assert "error" in answer and finished == (200 if key == "id" else 409)
        beyond = {key: session_id, **dict.fromkeys(reset_body, 99)}
        if "world_type" in beyond:
            beyond["world_type"] = "Text"
        status, answer, _ = await post(http, f"{url}/reset", beyond)
        assert answer["kind"] == "bad-request" and status == (200 if key == "id" else 422)
        assert (await post(http, f"{url}/close", {key: session_id}))[1] is True
        assert len(server.leases) == 0


@pytest.mark.parametrize("env_id", CLIENTS)
async def test_our_client_sees_the_same_through_every_dialect(env_id: str) -> None:
    named = Named(env_id)
    async with named.open(named.task) as here:
        expected = [await here.start(), *[await here.step(Action(a)) for a in ("x", "win")]]
    async with running({env_id: named}, Terms("agentgym")) as (url, _):
        remote = create(url, env_id)
        async with remote.open(named.task) as there:
            got = [await there.start(), *[await there.step(Action(a)) for a in ("x", "win")]]
        await remote.aclose()
    assert got == expected


async def test_an_index_can_be_played_on_our_server_too() -> None:
    async with running(ENVS, Terms("agentgym")) as (url, _):
        remote = create(url, "textcraft")
        async with remote.open(remote.panel("agentgym").tasks[3]) as env:
            first = await env.start()
        await remote.aclose()
    goal = TEXTCRAFT.panel("legacy").tasks[3].data["goal"].replace("_", " ")
    assert first.text.endswith(f"Goal: craft {goal}.")


def test_an_environment_with_numbers_of_its_own_is_asked_for_them() -> None:
    require("minigrid", "pip install 'practicum[babyai]'")
    book = TaskBook(registry.load_env("babyai"))
    task = book.at(85, wraps=False)
    assert (task.data["seed"], task.difficulty) == (2, book.at(5, wraps=False).difficulty)
