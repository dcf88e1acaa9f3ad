"""WebShop as an environment: its promises, its cost, and AgentGym's defects it must not have."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence

import pytest

from practicum.core.agent import Situation
from practicum.core.commands import to_call, to_text
from practicum.core.errors import ConfigError
from practicum.core.message import Action
from practicum.core.task import Task
from practicum.envs.contract import transcript, transcript_hash
from practicum.envs.text.webshop import shops
from practicum.envs.text.webshop.env import COMMANDS, create
from practicum.envs.text.webshop.shops import generated_shop


async def test_expert_buys_the_right_product_in_95_of_100_dev_tasks() -> None:
    env = create()
    tasks = env.panel("dev").tasks
    successes = 0
    for task in tasks:
        _, last = await transcript(env, task, env.scripts["expert"])
        successes += last is not None and last.is_success
    assert successes >= 0.95 * len(tasks)


async def test_expert_explains_every_action() -> None:
    env = create()
    for task in env.panel("dev").tasks[::40]:
        turns, _ = await transcript(env, task, env.scripts["expert"])
        for number, turn in enumerate(turns):
            seen = Situation(task, 0, turns[:number], turn.observation, 0)
            assert env.scripts["expert"](seen).thought


async def test_expert_takes_over_a_visit_that_someone_else_began() -> None:
    env = create()
    expert, random = env.scripts["expert"], env.scripts["random"]

    def relay(situation: Situation):  # type: ignore[no-untyped-def]
        begins = len(situation.history) < 3 and "Buy Now" not in situation.observation.text
        return (random if begins else expert)(situation)

    finished = 0
    for task in env.panel("dev").tasks[:24]:
        _, last = await transcript(env, task, relay)
        finished += last is not None and last.is_done
    assert finished == 24


async def test_random_player_rarely_succeeds_and_often_buys() -> None:
    env = create()
    lasts = [
        (await transcript(env, task, env.scripts["random"]))[1]
        for task in env.panel("dev").tasks[:100]
    ]
    assert sum(last is not None and last.is_done for last in lasts) > 50
    assert sum(last is not None and last.is_success for last in lasts) < 20


async def test_a_purchase_reports_the_parts_of_its_reward() -> None:
    env = create()
    _, last = await transcript(env, env.panel("dev").tasks[0], env.scripts["expert"])
    assert last is not None
    parts = {"reward", "r_type", "r_attributes", "r_options", "r_price"}
    assert parts <= last.info.keys()
    assert last.info["reward"] == last.reward == 1.0


async def test_a_finished_episode_never_pays_again() -> None:
    env = create()
    task = env.panel("dev").tasks[0]
    turns, last = await transcript(env, task, env.scripts["expert"])
    assert last is not None and last.reward == 1.0
    async with env.open(task) as episode:
        await episode.start()
        for turn in turns:
            assert turn.action is not None
            await episode.step(turn.action)
        for text in ("click[Buy Now]", "click[Back to Search]", "search[shirt]"):
            again = await episode.step(Action(text))
            assert (again.reward, again.is_refused, again.is_success) == (0.0, True, False)


async def test_opening_episodes_does_not_build_the_shop_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    built = []
    shop = generated_shop()
    monkeypatch.setattr(shops, "_GENERATED", {})
    monkeypatch.setattr(shops, "_generate", lambda: built.append(1) or shop)
    env = create()
    task = env.panel("dev").tasks[0]

    async def visit() -> None:
        async with env.open(task) as episode:
            await episode.start()

    await asyncio.gather(*(visit() for _ in range(32)))
    async with create().open(task):
        pass
    assert built == [1]


async def test_a_task_shows_the_same_price_limit_in_every_session() -> None:
    env, other = create(), create()
    for task in env.panel("test").tasks[:60]:
        shown = []
        for shop in (env, other):
            async with shop.open(task) as episode:
                shown.append((await episode.start()).text)
        assert shown[0] == shown[1]
        limit = task.data["price_limit"]
        assert limit is None or f"price lower than {limit:.2f} dollars" in shown[0]


async def test_the_goal_is_not_shown() -> None:
    env = create()
    for task in env.panel("dev").tasks[:20]:
        async with env.open(task) as episode:
            first = await episode.start()
        assert task.data["asin"] not in first.text
        assert task.data["asin"] not in task.prompt


async def test_concurrent_episodes_of_many_tasks_do_not_mix() -> None:
    env = create()
    tasks = env.panel("dev").tasks[:32]
    expert = env.scripts["expert"]
    alone = [transcript_hash(*await transcript(env, task, expert)) for task in tasks]
    together = await asyncio.gather(*(transcript(env, task, expert) for task in tasks))
    assert [transcript_hash(*played) for played in together] == alone


async def test_a_task_of_another_catalogue_is_a_config_error() -> None:
    data = {**create().panel("dev").tasks[0].data, "catalogue": "original-0123"}
    task = Task.create("webshop", "buy a thing", data)
    with pytest.raises(ConfigError, match="data_dir"):
        async with create().open(task):
            pass


async def test_missing_packages_are_named_before_the_first_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shops, "_GENERATED", {})
    monkeypatch.setattr(shops, "find_spec", lambda name: None if name == "rapidfuzz" else object())
    env = create()
    with pytest.raises(ConfigError, match=r"rapidfuzz.*pip install"):
        async with env.open(env.panel("dev").tasks[0]):
            pass


def test_actions_pass_through_function_calls_unchanged() -> None:
    for text in ('click[18" x 18"]', "search[a [b] c]", "click[Buy Now]", "click[< Prev]"):
        call = to_call(COMMANDS, text)
        assert call.name in ("search", "click")
        assert to_text(COMMANDS, call) == text


def test_importing_the_environment_loads_no_heavy_package() -> None:
    code = (
        "import sys; import practicum.envs.text.webshop.env\n"
        "heavy = {'numpy', 'bm25s', 'rapidfuzz', 'Stemmer', 'torch'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_catalogue_tasks_and_episodes_do_not_depend_on_the_hash_seed() -> None:
    assert _run_with_hash_seed("1") == _run_with_hash_seed("2")


_PRINT_HASHES = """
import asyncio
from practicum.core.canonical import content_hash
from practicum.envs.contract import transcript, transcript_hash
from practicum.envs.panels import panel_texts
from practicum.envs.text.webshop.env import create
from practicum.envs.text.webshop.freeze import build_panels
from practicum.envs.text.webshop.shops import generated_shop

async def main():
    env = create()
    print(generated_shop().hash, content_hash(panel_texts(build_panels())))
    for task in env.panel("dev").tasks[::30]:
        for script in ("expert", "random"):
            print(transcript_hash(*await transcript(env, task, env.scripts[script])))

asyncio.run(main())
"""


def _run_with_hash_seed(seed: str) -> Sequence[str]:
    done = subprocess.run(
        [sys.executable, "-c", _PRINT_HASHES],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONHASHSEED": seed},
    )
    return done.stdout.splitlines()
