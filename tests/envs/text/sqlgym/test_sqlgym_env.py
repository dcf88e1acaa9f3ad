"""SQLGym's rules, turn by turn, and its promises."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from practicum.agents.formats import get_format
from practicum.core.agent import Situation
from practicum.core.env import StepResult
from practicum.core.errors import ConfigError, EnvError
from practicum.core.message import Action
from practicum.core.task import Task
from practicum.envs.contract import check_env, transcript, transcript_hash
from practicum.envs.text.sqlgym.databases import GeneratedDatabases
from practicum.envs.text.sqlgym.env import SqlGym, create
from practicum.envs.text.sqlgym.tasks import make_task

FORMATS = ("react", "bracket", "tag", "function_call", "code", "adapt")
FILMS = "SELECT title FROM films WHERE genre = 'comedy'"


def task_of(gold: str, question: str = "Which films are comedies? Give the title.") -> Task:
    return make_task(GeneratedDatabases().find("cinema"), question, gold, hint="a hint")


async def play(environment: SqlGym, task: Task, *actions: str) -> list[StepResult]:
    async with environment.open(task) as env:
        await env.start()
        return [await env.step(Action(text)) for text in actions]


async def test_every_promise_is_kept_in_one_turn(single_turn: SqlGym) -> None:
    broken = [result for result in await check_env(single_turn) if not result.is_kept]
    assert broken == []


@pytest.mark.parametrize("panel", ["dev", "test"])
async def test_expert_solves_the_whole_panel(sqlgym: SqlGym, panel: str) -> None:
    tasks = sqlgym.panel(panel).tasks
    slots = asyncio.Semaphore(16)

    async def solve(task: Task) -> bool:
        async with slots:
            _, last = await transcript(sqlgym, task, sqlgym.scripts["expert"])
            return last is not None and last.is_success

    solved = await asyncio.gather(*map(solve, tasks))
    assert sum(solved) == len(tasks)


async def test_first_message_shows_schema_question_and_hint(sqlgym: SqlGym) -> None:
    async with sqlgym.open(task_of(FILMS)) as env:
        text = (await env.start()).text
    assert text.startswith("cinema contains tables such as directors, films, halls, screenings.\n")
    assert "Table halls has columns such as hall_id (integer), hall_name (text)," in text
    assert "The film_id of screenings is the foreign key of film_id of films." in text
    assert text.endswith("Question: Which films are comedies? Give the title.\nHint: a hint")


async def test_query_shows_rows_and_goes_on(sqlgym: SqlGym) -> None:
    (result,) = await play(
        sqlgym, task_of(FILMS), "query SELECT 1 AS one, 'a' AS letter, NULL, 2.5, 3.0"
    )
    assert (
        result.observation.text
        == "one | letter | NULL | 2.5 | 3.0\n1 | a | NULL | 2.5 | 3.0\n(1 row)"
    )
    assert (result.reward, result.is_done, result.is_refused) == (0.0, False, False)


async def test_right_submission_pays_one_and_ends(sqlgym: SqlGym) -> None:
    written_otherwise = "submit SELECT f.title\nFROM films AS f\nWHERE f.genre IN ('comedy');"
    (result,) = await play(sqlgym, task_of(FILMS), written_otherwise)
    assert (result.reward, result.is_done, result.is_success) == (1.0, True, True)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT title FROM films",
        "SELECT title, genre FROM films WHERE genre = 'comedy'",
        "SELECT UPPER(title) FROM films WHERE genre = 'comedy'",
        f"{FILMS} LIMIT 1",
        f"{FILMS} UNION ALL SELECT title FROM films WHERE genre = 'comedy'",
        "SELECT title FROM films WHERE 0",
    ],
)
async def test_wrong_submission_pays_nothing_and_ends(sqlgym: SqlGym, sql: str) -> None:
    (result,) = await play(sqlgym, task_of(FILMS), f"submit {sql}")
    assert (result.reward, result.is_done, result.is_success) == (0.0, True, False)


async def test_row_order_counts_only_where_the_gold_query_sorts(sqlgym: SqlGym) -> None:
    backwards = f"submit {FILMS} ORDER BY title DESC"
    (any_order,) = await play(sqlgym, task_of(FILMS), backwards)
    (in_order,) = await play(sqlgym, task_of(f"{FILMS} ORDER BY title"), backwards)
    assert any_order.is_success
    assert not in_order.is_success


async def test_submission_that_does_not_run_can_be_mended(sqlgym: SqlGym) -> None:
    first, second = await play(
        sqlgym, task_of(FILMS), "submit SELECT titel FROM films", f"submit {FILMS}"
    )
    assert first.is_refused and not first.is_done
    assert first.observation.text == "SQL error: no such column: titel"
    assert second.is_success


@pytest.mark.parametrize("text", ["", "SELECT 1", "queryx SELECT 1", "help", "answer 42"])
async def test_action_without_a_command_is_refused(sqlgym: SqlGym, text: str) -> None:
    (result,) = await play(sqlgym, task_of(FILMS), text)
    assert result.is_refused and not result.is_done
    assert "query or submit" in result.observation.text


@pytest.mark.parametrize(
    "text",
    [
        f"submit {FILMS}",
        f"SUBMIT: {FILMS}",
        f"submit\n```sql\n{FILMS}\n```",
        f"submit ```{FILMS}```",
        f"submit -- the comedies\n{FILMS} /* all */ ;",
    ],
)
async def test_ways_to_write_a_submission(sqlgym: SqlGym, text: str) -> None:
    (result,) = await play(sqlgym, task_of(FILMS), text)
    assert result.is_success


async def test_finished_episode_cannot_pay_again(sqlgym: SqlGym) -> None:
    with pytest.raises(EnvError) as error:
        await play(sqlgym, task_of(FILMS), f"submit {FILMS}", f"submit {FILMS}")
    assert error.value.kind == "finished"


async def test_single_turn_takes_the_first_query_as_final(single_turn: SqlGym) -> None:
    assert single_turn.max_turns == 1
    (right,) = await play(single_turn, task_of(FILMS), f"```sql\n{FILMS}\n```")
    (wrong,) = await play(single_turn, task_of(FILMS), "SELECT 1")
    (broken,) = await play(single_turn, task_of(FILMS), "I do not know")
    assert (right.reward, right.is_done, right.is_success) == (1.0, True, True)
    assert (wrong.reward, wrong.is_done, wrong.is_success) == (0.0, True, False)
    assert (broken.reward, broken.is_done, broken.is_refused) == (0.0, True, True)


async def test_gold_reaches_nothing_the_agent_sees(sqlgym: SqlGym) -> None:
    for task in sqlgym.panel("dev").tasks[::12]:
        async with sqlgym.open(task) as env:
            seen = [repr(await env.start())]
            texts = ("query SELECT 1", "query nonsense", "submit nonsense", "submit SELECT 1")
            seen += [repr(await env.step(Action(text))) for text in texts]
        for shown in seen:
            assert task.data["gold"] not in shown
            assert task.data["plan"] not in shown


async def test_internal_tables_do_not_list_the_gold_query(sqlgym: SqlGym) -> None:
    results = await play(
        sqlgym,
        task_of(FILMS),
        "submit SELECT nothing",
        "query SELECT sql FROM sqlite_stmt",
        "query SELECT * FROM sqlite_master",
        "submit SELECT title FROM films WHERE title IN (SELECT sql FROM sqlite_stmt)",
    )
    assert results[1].is_refused
    assert results[3].is_refused
    assert all("comedy" not in result.observation.text for result in results)


async def test_sixty_four_sessions_of_one_task_go_alike(sqlgym: SqlGym) -> None:
    task = sqlgym.panel("dev").tasks[50]
    played = await asyncio.gather(
        *(transcript(sqlgym, task, sqlgym.scripts["expert"]) for _ in range(64))
    )
    assert len({transcript_hash(*one) for one in played}) == 1


async def test_twenty_sessions_are_twenty_sessions(sqlgym: SqlGym) -> None:
    """AgentGym's server hands out eight slots, and clients share them unknowingly."""
    tasks = sqlgym.panel("dev").tasks[:20]
    contexts = [sqlgym.open(task) for task in tasks]
    envs = [await context.__aenter__() for context in contexts]
    try:
        for env, task in zip(envs, tasks, strict=True):
            assert task.prompt in (await env.start()).text
        results = [
            await env.step(Action(f"submit {task.data['gold']}"))
            for env, task in zip(reversed(envs), reversed(tasks), strict=True)
        ]
        assert all(result.is_success for result in results)
    finally:
        for context in contexts:
            await context.__aexit__(None, None, None)


@pytest.mark.parametrize("name", FORMATS)
async def test_expert_can_be_written_in_every_format(sqlgym: SqlGym, name: str) -> None:
    action_format = get_format(name)
    for task in sqlgym.panel("dev").tasks[::9]:
        async with sqlgym.open(task) as env:
            observation = await env.start()
        decision = sqlgym.scripts["expert"](Situation(task, 0, (), observation, 0))
        assert decision.thought
        action_format.render(decision, sqlgym.commands)


async def test_random_player_writes_queries_that_run(sqlgym: SqlGym) -> None:
    for seed, task in enumerate(sqlgym.panel("dev").tasks[::12]):
        turns, _ = await transcript(sqlgym, task, sqlgym.scripts["random"], seed)
        assert not any(turn.is_refused for turn in turns)


async def test_task_of_another_version_of_the_database_is_not_played(sqlgym: SqlGym) -> None:
    task = sqlgym.panel("dev").tasks[0]
    other = Task.create(task.env_id, task.prompt, {**task.data, "hash": "0" * 16})
    with pytest.raises(ConfigError, match="another version"):
        await play(sqlgym, other)


def test_options_that_do_not_fit_are_config_errors() -> None:
    with pytest.raises(ConfigError, match="need dataset"):
        create(data_dir="somewhere")
    with pytest.raises(ConfigError, match="needs data_dir"):
        create(dataset="bird")


def test_importing_the_environment_is_light() -> None:
    code = (
        "import sys; import practicum.envs.text.sqlgym.env; "
        "heavy = {'numpy', 'torch', 'openai', 'pydantic', 'fastapi'} & set(sys.modules); "
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
