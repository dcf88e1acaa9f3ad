"""The rules of SearchQA, its promises, and the defects of AgentGym's version it has not."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from support import require

from practicum.agents.formats import FORMATS
from practicum.core.agent import Situation
from practicum.core.commands import Call, to_call, to_text
from practicum.core.env import StepResult
from practicum.core.errors import ConfigError
from practicum.core.message import Action, Observation
from practicum.core.task import Task
from practicum.envs.contract import HOSTILE_ACTIONS, transcript
from practicum.envs.text.searchqa.actions import read_tags
from practicum.envs.text.searchqa.env import COMMANDS, SearchQA, SearchQAEnv, create, show
from practicum.envs.text.searchqa.retriever import Document
from practicum.envs.text.searchqa.scoring import exact_match, f1
from practicum.envs.text.searchqa.tasks import make_task

TASK = make_task("Who wrote it?", ["Maren Sulesk"], "none", split="test")


class FakeRetriever:
    """Answers every query with the same passages and remembers the queries."""

    def __init__(self, documents: list[Document] | None = None) -> None:
        self.documents = documents or []
        self.queries: list[object] = []

    async def retrieve(self, query: str, k: int) -> list[Document]:
        self.queries.append(query)
        return self.documents[:k]

    async def aclose(self) -> None:
        pass


@pytest.fixture
def environment() -> SearchQA:
    require("bm25s", "pip install 'practicum[searchqa]'")
    return create()


def new_env(retriever: FakeRetriever | None = None, task: Task = TASK) -> SearchQAEnv:
    return SearchQAEnv(task, retriever or FakeRetriever(), exact_match)


async def say(text: str, task: Task = TASK) -> StepResult:
    return await new_env(task=task).step(Action(text))


async def test_the_expert_answers_every_dev_question(environment: SearchQA) -> None:
    expert = environment.scripts["expert"]
    lost = []
    for task in environment.panel("dev"):
        _, last = await transcript(environment, task, expert)
        if last is None or not last.is_success:
            lost.append(task.prompt)
    assert lost == []


async def test_the_expert_reads_only_what_is_shown(environment: SearchQA) -> None:
    expert = environment.scripts["expert"]
    blank = replace(TASK, prompt="", data={}, family="", difficulty="")
    for task in environment.panel("dev").tasks[::40]:
        turns, _ = await transcript(environment, task, expert)
        for i, turn in enumerate(turns):
            situation = Situation(blank, 0, turns[:i], turn.observation, seed=1)
            assert expert(situation).action == turn.action


async def test_the_expert_gives_up_on_a_question_it_cannot_read(environment: SearchQA) -> None:
    situation = Situation(TASK, 0, (), Observation("Question: why?"), seed=0)
    assert environment.scripts["expert"](situation).action.text == "<answer>unknown</answer>"


async def test_expert_decisions_can_be_written_in_every_format(environment: SearchQA) -> None:
    expert = environment.scripts["expert"]
    for task in environment.panel("dev").tasks[::20]:
        turns, _ = await transcript(environment, task, expert)
        for i, turn in enumerate(turns):
            decision = expert(Situation(task, 0, turns[:i], turn.observation, seed=1))
            assert decision.thought
            for action_format in FORMATS.values():
                action_format.render(decision, COMMANDS)


def test_episodes_do_not_depend_on_the_hash_seed() -> None:
    require("bm25s", "pip install 'practicum[searchqa]'")
    program = """
import asyncio
from practicum.envs.contract import transcript, transcript_hash
from practicum.envs.text.searchqa.env import create
from practicum.envs.text.searchqa.lands.passages import corpus_hash, load_passages
async def main():
    env = create()
    print(corpus_hash(load_passages()))
    for task in env.panel("test").tasks[::60]:
        for script in env.scripts.values():
            print(transcript_hash(*await transcript(env, task, script)))
asyncio.run(main())
"""
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1
    assert len(outputs.pop().split()) == 15


async def test_the_right_answer_pays_one_and_ends_the_episode() -> None:
    result = await say("<answer>the MAREN Sulesk.</answer>")
    assert (result.reward, result.is_done, result.is_success) == (1.0, True, True)
    assert dict(result.info) == {"exact_match": 1.0, "f1": 1.0}


async def test_a_wrong_answer_ends_the_episode_too() -> None:
    env = new_env()
    result = await env.step(Action("<answer>Maren Gilum</answer>"))
    assert (result.reward, result.is_done, result.is_success) == (0.0, True, False)
    assert dict(result.info) == {"exact_match": 0.0, "f1": 0.5}
    again = await env.step(Action("<answer>Maren Sulesk</answer>"))
    assert (again.reward, again.is_done, again.is_success) == (0.0, True, False)
    assert again.is_refused


async def test_a_right_answer_does_not_pay_twice() -> None:
    env = new_env()
    await env.step(Action("<answer>Maren Sulesk</answer>"))
    assert (await env.step(Action("<answer>Maren Sulesk</answer>"))).reward == 0.0


async def test_f1_can_be_the_reward() -> None:
    env = SearchQAEnv(TASK, FakeRetriever(), f1)
    result = await env.step(Action("<answer>Maren Gilum</answer>"))
    assert (result.reward, result.is_success) == (0.5, False)


def test_an_unknown_reward_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="did you mean 'f1'"):
        create(reward="f2")


async def test_the_golden_answer_is_never_shown() -> None:
    env = new_env()
    shown = (await env.start()).text
    for text in ("", "<search>golden</search>", "<answer></answer>", "<answer>none</answer>"):
        result = await env.step(Action(text))
        shown += f"{result.observation.text} {result.info}"
    assert "Sulesk" not in shown


async def test_the_retriever_is_given_a_text_and_not_a_list() -> None:
    retriever = FakeRetriever()
    await new_env(retriever).step(Action("<search> who wrote it </search>"))
    assert retriever.queries == ["who wrote it"]


async def test_results_are_shown_as_search_r1_shows_them() -> None:
    documents = [Document("1", "Rome", "A city."), Document("2", "Oslo", "Another.")]
    result = await new_env(FakeRetriever(documents)).step(Action("<search>city</search>"))
    assert result.observation.text == (
        '<information>Doc 1(Title: "Rome") A city.\nDoc 2(Title: "Oslo") Another.</information>'
    )
    assert (result.reward, result.is_done, result.is_refused) == (0.0, False, False)


def test_a_search_without_results_says_so() -> None:
    assert show([]) == "<information>No passage matches.</information>"


def test_a_very_long_passage_is_cut() -> None:
    assert len(show([Document("1", "Long", "x" * 10_000)])) < 2_100


async def test_three_passages_are_shown(environment: SearchQA) -> None:
    task = environment.panel("dev").tasks[0]
    async with environment.open(task) as env:
        assert (await env.start()).text == f"Question: {task.prompt}"
        result = await env.step(Action("<search>a novel by Maren</search>"))
    assert result.observation.text.count("(Title: ") == 3


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("<search>a</search>", [("search", "a")]),
        ("<think>b</think>\n<search> a\nb </search>", [("search", "a\nb")]),
        ("Sure: <answer>a</answer> Done.", [("answer", "a")]),
        ("<think><answer>a</answer></think><search>b</search>", [("search", "b")]),
        ("opened in the prompt <answer>a</answer></think><search>b</search>", [("search", "b")]),
        ("<think>never closed <answer>a</answer>", []),
        ("<answer>a</answer><think>later</think>", [("answer", "a")]),
        ("<answer> no end <search>a</search>", [("search", "a")]),
        ("<search>a</answer>", []),
        ("<search>a<answer>b</search>", [("search", "a<answer>b")]),
        ("search[a]", []),
        ("<search>a</search><answer>b</answer>", [("search", "a"), ("answer", "b")]),
    ],
)
def test_tags_are_read_from_a_whole_answer(text: str, tags: list[tuple[str, str]]) -> None:
    assert read_tags(text) == tags


@pytest.mark.parametrize(
    "text",
    [
        *HOSTILE_ACTIONS,
        "search[Maren]",
        "<search></search>",
        "<answer> \n </answer>",
        "<search>" + "x " * 25_000 + "</search>",
        "<answer>" + "9" * 5_000 + "</answer>",
        "<search>a</search><search>b</search>",
        "<search>a</search><information>fake</information><answer>b</answer>",
        "<think>I could <answer>Maren Sulesk</answer>",
    ],
)
async def test_what_is_no_single_action_is_refused(text: str) -> None:
    env = new_env()
    result = await env.step(Action(text))
    assert result.is_refused and not result.is_done and result.reward == 0.0
    assert result.observation.text
    assert (await env.step(Action("<answer>Maren Sulesk</answer>"))).is_success


async def test_hostile_queries_are_searched_without_harm(environment: SearchQA) -> None:
    task = environment.panel("dev").tasks[0]
    async with environment.open(task) as env:
        for query in ("\x00", "\ud800", "' OR 1=1 --", "9" * 999, "(" * 900, "<information>"):
            result = await env.step(Action(f"<search>{query}</search>"))
            assert result.observation.text.startswith("<information>")


def test_reading_tags_takes_linear_time() -> None:
    start = time.perf_counter()
    for unit in ("<search>", "<think>", "</think>", "</think><think>", "<answer><search>"):
        read_tags(unit * 20_000)
        read_tags(unit * 20_000 + "</search>")
    assert time.perf_counter() - start < 2.0


def test_commands_are_written_as_the_tags_of_agentgym() -> None:
    call = Call("search", {"query": "who wrote it"})
    assert to_text(COMMANDS, call) == "<search>who wrote it</search>"
    assert to_call(COMMANDS, "<answer>Maren</answer>") == Call("answer", {"text": "Maren"})


async def test_a_task_about_another_collection_is_turned_down(environment: SearchQA) -> None:
    with pytest.raises(ConfigError, match=r"collection 'none'.*searches 'lands-1'"):
        async with environment.open(TASK):
            pass


async def test_many_episodes_share_one_index(environment: SearchQA) -> None:
    task = environment.panel("dev").tasks[3]
    expert = environment.scripts["expert"]
    alone, _ = await transcript(environment, task, expert)
    others = [create() for _ in range(16)]
    played = await asyncio.gather(*(transcript(other, task, expert) for other in others))
    assert all(turns == alone for turns, _ in played)
    assert len({id(other._retriever) for other in others}) == 1


def test_importing_the_environment_imports_nothing_heavy() -> None:
    program = (
        "import sys, practicum.envs.text.searchqa.env as e; e.create().panel_names();"
        "print([m for m in ('bm25s', 'aiohttp', 'numpy', 'torch') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
