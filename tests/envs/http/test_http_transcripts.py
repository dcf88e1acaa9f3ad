"""In-process, over AgentGym's HTTP and over our WebSocket an agent sees the same bytes."""

from __future__ import annotations

import pytest
from envs.http.gallery import Gallery
from support import TIMELESS, require_env

from practicum.agents.chat import ChatAgent
from practicum.agents.formats import get_format
from practicum.core.agent import Sampling, Situation
from practicum.core.env import Decision, Environment, Script
from practicum.core.episode import StopReason
from practicum.core.message import Action
from practicum.core.task import Task
from practicum.envs import registry
from practicum.envs.contract import check_env, transcript, transcript_hash
from practicum.envs.http.app import DialectName, Terms
from practicum.envs.http.remote import create
from practicum.envs.http.server import running
from practicum.policies.scripted import ScriptedPolicy
from practicum.rewards.outcome import judge_outcome
from practicum.rollout.play import Attempt, Limits, Table, play_episode

DIALECTS: tuple[DialectName, ...] = ("agentgym", "native")
NUM_TASKS = 6


@pytest.mark.parametrize("env_id", TIMELESS)
async def test_three_transports_give_one_transcript(env_id: str) -> None:
    require_env(env_id)
    local = registry.load_env(env_id)
    panel = local.panel("dev").tasks
    tasks = panel[:: max(1, len(panel) // NUM_TASKS)][:NUM_TASKS]
    for dialect in DIALECTS:
        async with running({env_id: local}, Terms(dialect)) as (url, server):
            remote = create(url, env_id)
            for task in tasks:
                for name in ("expert", "random"):
                    script = local.scripts[name]
                    here = await transcript(local, task, script)
                    there = await transcript(remote, task, script)
                    assert here == there, f"{task.id} by {name} over {dialect}"
                    assert transcript_hash(*here) == transcript_hash(*there)
            await remote.aclose()
            assert len(server.leases) == 0


def go_in_circles(situation: Situation) -> Decision:
    """Try what is refused, look, and try it again."""
    return Decision(Action(("inventory", "get 1 moon")[len(situation.history) % 2]))


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_states_and_what_is_cut_short_are_the_same_elsewhere(dialect: DialectName) -> None:
    """Looks between refusals are seen through by who knows the state."""
    local = registry.load_env("textcraft")
    tasks = local.panel("dev").tasks[:4]

    async def play(world: Environment, script: Script) -> list[tuple[object, ...]]:
        form = get_format("react")
        policy = ScriptedPolicy(script, lambda decision: form.render(decision, world.commands))
        agent = ChatAgent(world, form, policy, Sampling())
        table = Table(world, agent, judge_outcome, Limits(20, max_repeated_refusals=3))
        episodes = [await play_episode(table, Attempt(task)) for task in tasks]
        return [(e.stop, e.error, *(turn.state for turn in e.turns)) for e in episodes]

    async with running({"textcraft": local}, Terms(dialect)) as (url, _):
        remote = create(url, "textcraft")
        for script in (go_in_circles, local.scripts["expert"], local.scripts["random"]):
            here = await play(local, script)
            assert await play(remote, script) == here
            if script is go_in_circles:
                assert {stop for stop, *_ in here} == {StopReason.REPEATED_REFUSAL}
                assert {len(states) for _, _, *states in here} == {6}
        await remote.aclose()


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_remote_environment_keeps_every_promise(dialect: DialectName) -> None:
    local = registry.load_env("textcraft")
    async with running({"textcraft": local}, Terms(dialect)) as (url, _):
        remote = create(url, "textcraft")
        broken = [result for result in await check_env(remote) if not result.is_kept]
        await remote.aclose()
    assert not broken


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_pictures_and_awkward_text_arrive_byte_for_byte(dialect: DialectName) -> None:
    gallery: Environment = Gallery()
    said = "\ud83d lone \x00 \u202e " + "x" * 50_000
    async with gallery.open(Gallery.task) as here:
        expected = [await here.start(), await here.step(Action(said))]
    async with running({"gallery": gallery}, Terms(dialect)) as (url, _):
        remote = create(url, "envs.http.gallery:Gallery")
        async with remote.open(Gallery.task) as there:
            got = [await there.start(), await there.step(Action(said))]
        await remote.aclose()
    assert got == expected


async def test_a_task_of_no_panel_travels_with_its_content() -> None:
    local = registry.load_env("textcraft")
    known = local.panel("dev").tasks[0]
    data = {**known.data, "commands": list(reversed(known.data["commands"]))}
    task = Task.create("textcraft", known.prompt, data)
    script = local.scripts["expert"]
    here = await transcript(local, task, script)
    for dialect in DIALECTS:
        async with running({"textcraft": local}, Terms(dialect)) as (url, _):
            remote = create(url, "textcraft")
            assert await transcript(remote, task, script) == here
            await remote.aclose()


async def test_scripts_see_what_the_server_shows() -> None:
    local = registry.load_env("textcraft")
    seen: list[str] = []

    def watch(situation: Situation) -> Decision:
        seen.append(situation.observation.text)
        return local.scripts["expert"](situation)

    async with running({"textcraft": local}, Terms("native")) as (url, _):
        remote = create(url.replace("http", "practicum+ws"), "textcraft")
        await transcript(remote, local.panel("dev").tasks[0], watch)
        await remote.aclose()
    assert seen[0].startswith("Crafting commands:")
