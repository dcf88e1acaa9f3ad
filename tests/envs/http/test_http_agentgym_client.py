"""One client plays on all of AgentGym's servers (stand-ins), whatever they get wrong."""

from __future__ import annotations

import asyncio

import pytest
from envs.http.agentgym_stand_ins import (
    ALFWorld,
    BabyAI,
    SciWorld,
    SearchQA,
    SQLGym,
    StandIn,
    TextCraft,
    Tool,
    WebShop,
    every_stand_in,
    serving,
)
from envs.http.fault_proxy import QUICK, table

from practicum.core.agent import Situation
from practicum.core.env import Decision
from practicum.core.episode import Episode, StopReason
from practicum.core.errors import EnvError
from practicum.core.message import Action
from practicum.core.task import Task
from practicum.envs.http.agentgym import AgentGymTransport
from practicum.envs.http.calls import Caller
from practicum.envs.http.dialects import DIALECTS
from practicum.envs.http.identity import INDEX, index_task
from practicum.envs.http.remote import RemoteEnvironment, create
from practicum.envs.text.textcraft.tasks import make_task
from practicum.envs.text.textcraft.versions import load_world
from practicum.rollout.play import Attempt, play_episode, play_group


def remote(url: str, env_id: str, timeout_s: float = 2.0) -> RemoteEnvironment:
    return create(f"agentgym+{url}", env_id, timeout_s=timeout_s, backoff=QUICK)


def look_then_win(situation: Situation) -> Decision:
    win = f"win {situation.task.data[INDEX]}"
    if situation.task.env_id == "searchqa":
        win = f"<answer>{win}</answer>"
    looks = 0 if situation.task.env_id == "sqlgym" else 2
    return Decision(Action("look" if len(situation.history) < looks else win))


def only_look(situation: Situation) -> Decision:
    return Decision(Action("look"))


async def play(environment: RemoteEnvironment, task: Task, script: object) -> Episode:
    return await play_episode(table(environment, script, 6), Attempt(task))  # type: ignore[arg-type]


def test_the_table_has_every_server() -> None:
    stand_ins = {stand_in.env_id for stand_in in every_stand_in()} | {"textcraft"}
    assert set(DIALECTS) == stand_ins


@pytest.mark.parametrize("stand_in", every_stand_in(), ids=lambda s: s.env_id)
async def test_a_win_and_a_failure_are_read_as_such(stand_in: StandIn) -> None:
    async with serving(stand_in.app()) as url:
        environment = remote(url, stand_in.env_id)
        won = await play(environment, index_task(stand_in.env_id, 3), look_then_win)
        lost = await play(environment, index_task(stand_in.env_id, 4), only_look)
        await environment.aclose()
    assert won.error is None and won.is_success and won.stop is StopReason.DONE
    assert won.reward is not None and 0 < won.reward.value <= 1
    assert lost.error is None and not lost.is_success
    assert lost.reward is not None and lost.reward.value < 1
    opened = [body for route, body in stand_in.calls if route == "create"]
    if stand_in.has_close:
        assert not stand_in.games and len(opened) == 2
    else:
        assert len(opened) == 1, "a session that cannot be closed serves the next episode"


async def test_textcraft_tasks_are_found_by_goal_whatever_the_order() -> None:
    world = load_world("minecraft-1.16.5")
    for order in (1, 2):
        stand_in = TextCraft(order)
        async with serving(stand_in.app()) as url:
            environment = remote(url, "textcraft")
            expert = environment.scripts["expert"]
            tasks = [make_task(world, goal) for goal in stand_in.goals]
            episodes = await asyncio.gather(
                *(play_episode(table(environment, expert, 50), Attempt(t)) for t in tasks)
            )
            await environment.aclose()
        assert all(e.is_success and e.reward and e.reward.value == 1 for e in episodes)
        for task, episode in zip(tasks, episodes, strict=True):
            goal = task.data["goal"].replace("_", " ")
            assert episode.turns[0].observation.text.endswith(f"Goal: craft {goal}.")
        assert not stand_in.games
        scans = [body for route, body in stand_in.calls if route == "reset"]
        assert len(scans) <= len(tasks) * 2, "what a scan has found is remembered"


async def test_a_goal_the_server_does_not_have_is_a_wrong_task() -> None:
    stand_in = TextCraft()
    stand_in.goals.remove(missing := stand_in.goals[5])
    task = make_task(stand_in.world, missing)
    async with serving(stand_in.app()) as url:
        environment = remote(url, "textcraft")
        episode = await play(environment, task, environment.scripts["expert"])
        await environment.aclose()
    assert episode.error is not None and episode.error.kind == "env/wrong-task"
    assert episode.reward is None


async def test_another_task_than_asked_for_is_an_error_that_names_both() -> None:
    stand_in = TextCraft()
    tasks = [make_task(stand_in.world, goal) for goal in stand_in.goals]
    async with serving(stand_in.app()) as url:
        environment = remote(url, "textcraft")
        expert = environment.scripts["expert"]
        assert (await play_episode(table(environment, expert, 50), Attempt(tasks[3]))).is_success
        # The server comes back with another order: what was learnt is looked up again.
        stand_in.goals.reverse()
        assert (await play_episode(table(environment, expert, 50), Attempt(tasks[3]))).is_success
        index = index_task("textcraft", 3)
        assert (await play(environment, index, expert)).error is None
        stand_in.lies = True
        episode = await play(environment, index, expert)
        await environment.aclose()
    assert episode.error is not None and episode.error.kind == "env/wrong-task"
    asked, served = (stand_in.goals[i].replace("_", " ") for i in (3, 2))
    assert asked in episode.error.message and served in episode.error.message


async def test_a_goal_of_another_world_is_not_taken_for_the_same_task() -> None:
    stand_in = TextCraft()
    task = make_task(stand_in.world, stand_in.goals[0])
    name = task.data["goal"].replace("_", " ")
    own = f"craft 1 {name} using 9 moon dust"
    others = [line for line in task.data["commands"] if f" {name} using " not in line]
    renamed = Task.create("textcraft", task.prompt, {**task.data, "commands": [own, *others]})
    async with serving(stand_in.app()) as url:
        environment = remote(url, "textcraft")
        episode = await play(environment, renamed, environment.scripts["expert"])
        await environment.aclose()
    assert episode.error is not None and episode.error.kind == "env/wrong-task"
    assert "moon dust" in episode.error.message


async def test_a_babyai_win_worth_less_than_half_ends_the_episode() -> None:
    stand_in = BabyAI()
    async with serving(stand_in.app()) as url:
        environment = remote(url, "babyai")
        async with environment.open(index_task("babyai", 0)) as env:
            await env.start()
            wasted = await env.step(Action("look"))
            won = await env.step(Action("win 0"))
        await environment.aclose()
    assert wasted.reward == 0 and not wasted.is_done
    assert (won.reward, won.is_done, won.is_success) == (0.4, True, True)


async def test_a_sciworld_score_becomes_rewards_that_sum_to_it() -> None:
    async with serving(SciWorld().app()) as url:
        environment = remote(url, "sciworld")
        task = index_task("sciworld", 2)
        async with environment.open(task) as env:
            first = await env.start()
            results = [await env.step(Action(text)) for text in ("a", "b", "win 2")]
        async with environment.open(task) as env:
            await env.start()
            lost = [await env.step(Action(text)) for text in ("a", "focus")]
        await environment.aclose()
    assert first.text == "Your task is to win 2.\nThis room is called the hallway."
    assert [r.reward for r in results] == pytest.approx([0.07, 0.07, 0.86])
    assert results[-1].is_success
    assert sum(r.reward for r in lost) == 0 and lost[-1].is_done and not lost[-1].is_success


async def test_sciworld_tasks_are_found_with_one_question_per_block() -> None:
    stand_in = SciWorld()
    async with serving(stand_in.app()) as url:
        transport = AgentGymTransport(Caller(url), DIALECTS["sciworld"], is_ours=False)
        for name, variation, index in (("melt", 3, 1003), ("grow", 0, 1007), ("boil", 9, 9)):
            data = {"task": name, "variation": variation, "simplifications": ""}
            async with transport.open(Task.create("sciworld", "…", data)) as env:
                assert (await env.start()).text.startswith(f"Your task is to win {index}.")
        easy = {"task": "melt", "variation": 3, "simplifications": "easy"}
        for data in (easy, {"task": "fly", "variation": 0}, {"task": "grow", "variation": 1}):
            with pytest.raises(EnvError) as caught:
                async with transport.open(Task.create("sciworld", "…", data)) as env:
                    await env.start()
            assert caught.value.kind == "wrong-task"
        await transport.caller.aclose()
    resets = [body for route, body in stand_in.calls if route == "reset"]
    assert len(resets) < 30


async def test_alfworld_shows_its_actions_under_the_text() -> None:
    async with serving(ALFWorld().app()) as url:
        environment = remote(url, "alfworld")
        async with environment.open(index_task("alfworld", 5)) as env:
            first = await env.start()
            result = await env.step(Action("fly"))
        await environment.aclose()
    assert first.text.endswith("Your task is to: win 5.\nAVAILABLE ACTIONS: look,win 5")
    assert result.is_refused


async def test_webshop_pays_by_degree_and_sqlgym_keeps_its_gold() -> None:
    async with serving(WebShop().app()) as url, serving(SQLGym().app()) as sql_url:
        shop, sql = remote(url, "webshop"), remote(sql_url, "sqlgym")
        async with shop.open(index_task("webshop", 1)) as env:
            await env.start()
            bought = await env.step(Action("buy"))
        async with sql.open(index_task("sqlgym", 1)) as env:
            await env.start()
            answered = await env.step(Action("SELECT 1"))
        await shop.aclose()
        await sql.aclose()
    assert (bought.reward, bought.is_done, bought.is_success) == (0.25, True, False)
    assert answered.is_done and answered.info == {}


async def test_a_wrong_searchqa_answer_is_final() -> None:
    async with serving(SearchQA().app()) as url:
        environment = remote(url, "searchqa")
        async with environment.open(index_task("searchqa", 1)) as env:
            await env.start()
            assert not (await env.step(Action("<search>x</search>"))).is_done
            wrong = await env.step(Action("<answer>no</answer>"))
        await environment.aclose()
    assert wrong.is_done and not wrong.is_success and wrong.reward == 0


async def test_the_ninth_sqlgym_episode_waits_for_a_slot() -> None:
    stand_in = SQLGym()
    stand_in.delay_s = 0.01
    async with serving(stand_in.app()) as url:
        clients = [remote(url, "sqlgym"), remote(url, "sqlgym")]  # two clients, one server
        holding = [clients[i % 2].open(index_task("sqlgym", i)) for i in range(8)]
        envs = [await context.__aenter__() for context in holding]
        ninth = clients[0].open(index_task("sqlgym", 8))
        waiting = asyncio.create_task(ninth.__aenter__())
        await asyncio.sleep(0.1)
        assert not waiting.done()
        assert len({env.session.id for env in envs}) == 8  # type: ignore[attr-defined]
        await holding[3].__aexit__(None, None, None)
        env = await asyncio.wait_for(waiting, 1)
        assert (await env.start()).text.endswith("win 8?")
        assert (await env.step(Action("win 8"))).is_success
        for context in (*holding[:3], *holding[4:], ninth):
            await context.__aexit__(None, None, None)
        for client in clients:
            await client.aclose()


async def test_32_sqlgym_episodes_on_8_slots_each_get_their_own_task() -> None:
    stand_in = SQLGym()
    stand_in.delay_s = 0.003
    async with serving(stand_in.app()) as url:
        environment = remote(url, "sqlgym")
        tasks = [index_task("sqlgym", i) for i in range(32)]
        played = await asyncio.gather(*(play(environment, t, look_then_win) for t in tasks))
        await environment.aclose()
    assert all(episode.is_success for episode in played)
    assert len(stand_in.games) == 8


async def test_slots_taken_by_another_process_are_not_shared_by_ours() -> None:
    stand_in = SQLGym()
    for _ in range(6):
        stand_in.create({})
    async with serving(stand_in.app()) as url:
        environment = remote(url, "sqlgym")
        tasks = [index_task("sqlgym", i) for i in range(16)]
        played = await asyncio.gather(*(play(environment, t, look_then_win) for t in tasks))
        await environment.aclose()
    assert all(episode.is_success for episode in played)


async def test_a_500_drops_the_pool_and_not_the_next_episode() -> None:
    stand_in = Tool("weather")
    async with serving(stand_in.app()) as url:
        environment = remote(url, "weather")
        async with environment.open(index_task("weather", 0)) as env:
            await env.start()
            stand_in.games[0].index = None  # the next step is an unhandled exception there
            with pytest.raises(EnvError) as caught:
                await env.step(Action("look"))
        assert caught.value.kind == "server-error"
        for i in range(5):
            assert (await play(environment, index_task("weather", i), look_then_win)).is_success
        await environment.aclose()


@pytest.mark.parametrize("stand_in", [TextCraft(), WebShop(), ALFWorld()], ids=lambda s: s.env_id)
async def test_a_restart_in_an_episode_is_a_lost_session(stand_in: StandIn) -> None:
    async with serving(stand_in.app()) as url:
        environment = remote(url, stand_in.env_id)
        task = index_task(stand_in.env_id, 1)
        async with environment.open(task) as env:
            await env.start()
            stand_in.games.clear()
            with pytest.raises(EnvError) as caught:
                await env.step(Action("look"))
        assert caught.value.kind == "lost-session"
        async with environment.open(task) as env:
            assert (await env.start()).text
        await environment.aclose()


async def test_ids_that_start_anew_do_not_mix_old_and_new_episodes() -> None:
    stand_in = ALFWorld()
    async with serving(stand_in.app()) as url:
        environment = remote(url, "alfworld")
        async with environment.open(index_task("alfworld", 1)) as old:
            await old.start()
            stand_in.games.clear()
            async with environment.open(index_task("alfworld", 2)) as new:
                await new.start()
                with pytest.raises(EnvError) as caught:
                    await old.step(Action("look"))
                assert caught.value.kind == "lost-session"
                assert (await new.step(Action("win 2"))).is_success
        assert stand_in.games[0].steps == ["win 2"]
        await environment.aclose()


async def test_a_cancelled_opening_leaves_no_session() -> None:
    stand_in = TextCraft()
    stand_in.delay_s = 0.1
    async with serving(stand_in.app()) as url:
        environment = remote(url, "textcraft")
        task = make_task(stand_in.world, stand_in.goals[0])
        for wait_s in (0.15, 0.25):  # during the creation, during the scan
            job = asyncio.create_task(play(environment, task, environment.scripts["expert"]))
            await asyncio.sleep(wait_s)
            job.cancel()
            with pytest.raises(asyncio.CancelledError):
                await job
        await environment.aclose()
        assert not stand_in.games


async def test_a_step_is_sent_once_when_the_server_is_slow() -> None:
    stand_in = Tool("movie")
    async with serving(stand_in.app()) as url:
        environment = remote(url, "movie", timeout_s=0.2)
        async with environment.open(index_task("movie", 0)) as env:
            await env.start()
            stand_in.delay_s = 0.4
            with pytest.raises(EnvError) as caught:
                await env.step(Action("look"))
            await asyncio.sleep(0.5)
        await environment.aclose()
    assert caught.value.kind == "timeout"
    assert [route for route, _ in stand_in.calls].count("step") == 1


async def test_a_group_of_episodes_holds_one_task() -> None:
    stand_in = TextCraft(order=4)
    async with serving(stand_in.app()) as url:
        environment = remote(url, "textcraft")
        task = make_task(stand_in.world, stand_in.goals[7])
        group = await play_group(table(environment, environment.scripts["expert"], 50), task, 8)
        await environment.aclose()
    first = {episode.turns[0].observation.text for episode in group.episodes}
    assert len(first) == 1 and all(episode.is_success for episode in group.episodes)
