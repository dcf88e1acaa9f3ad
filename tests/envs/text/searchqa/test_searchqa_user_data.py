"""The user's own collections and questions."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import require

from practicum.core.errors import ConfigError
from practicum.core.message import Action
from practicum.envs.text.searchqa.env import SearchQA, create

CORPUS = r"""
{"id": "0", "contents": "\"Oslo\"\nOslo is the capital of Norway."}
{"id": "1", "contents": "\"Rome\"\nRome is the capital of Italy."}
{"title": "Lima", "text": "Lima is the capital of Peru."}
"""
QUESTIONS = """
{"id": "a", "question": "What is the capital of Norway?", "golden_answers": ["Oslo", "Oslo city"], "split": "train"}
{"question": "What is the capital of Italy?", "answer": "Rome", "split": "dev", "data_source": "nq"}
{"question": "What is the capital of Peru?", "golden_answers": ["Lima"]}
{"question": "What is the capital of Peru?", "golden_answers": ["Lima"]}
"""  # noqa: E501


@pytest.fixture(autouse=True)
def _needs_bm25s() -> None:
    require("bm25s", "pip install 'practicum[searchqa]'")


def made(folder: Path, corpus: str = CORPUS, questions: str = QUESTIONS) -> SearchQA:
    (folder / "corpus.jsonl").write_text(corpus.strip() + "\n", encoding="utf-8")
    (folder / "questions.jsonl").write_text(questions.strip() + "\n", encoding="utf-8")
    return create(corpus=folder / "corpus.jsonl", questions=str(folder / "questions.jsonl"))


async def test_own_questions_are_answered_from_an_own_collection(tmp_path: Path) -> None:
    environment = made(tmp_path)
    assert list(environment.panel_names()) == ["train", "dev", "test"]
    (task,) = environment.panel("train")
    async with environment.open(task) as env:
        assert (await env.start()).text == "Question: What is the capital of Norway?"
        result = await env.step(Action("<search>capital of Norway</search>"))
        assert 'Doc 1(Title: "Oslo") Oslo is the capital' in result.observation.text
        assert (await env.step(Action("<answer>Oslo City</answer>"))).is_success


def test_rows_become_tasks(tmp_path: Path) -> None:
    environment = made(tmp_path)
    (italy,), (peru,) = environment.panel("dev"), environment.panel("test")
    assert italy.data["golden_answers"] == ["Rome"]
    assert (italy.difficulty, peru.difficulty) == ("nq", "")
    italy.verify()


def test_equal_files_give_equal_tasks_wherever_they_lie(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one, two = made(tmp_path / "a"), made(tmp_path / "b")
    assert one.panel("train").hash == two.panel("train").hash


async def test_another_collection_makes_other_tasks(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one = made(tmp_path / "a")
    two = made(tmp_path / "b", corpus=CORPUS.replace("Norway", "Sweden"))
    assert one.panel("train").hash != two.panel("train").hash
    with pytest.raises(ConfigError, match="asks about collection"):
        async with two.open(one.panel("train").tasks[0]):
            pass


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ("{", "line 5: not JSON"),
        ("[1]", "line 5: expected an object"),
        ('{"golden_answers": ["x"]}', "line 5: 'question'"),
        ('{"question": " ", "golden_answers": ["x"]}', "line 5: 'question'"),
        ('{"question": "q", "golden_answers": []}', "line 5: 'golden_answers'"),
        ('{"question": "q", "golden_answers": [3]}', "line 5: 'golden_answers'"),
        ('{"question": "q"}', "line 5: 'golden_answers'"),
        (r'{"question": "\ud800", "answer": "x"}', "line 5: half a character"),
        (
            '{"question": "what is the capital of norway", "answer": "x", "split": "dev"}',
            "line 5: this question is in split 'train' too",
        ),
    ],
)
def test_a_wrong_question_is_named_by_its_line(tmp_path: Path, row: str, complaint: str) -> None:
    environment = made(tmp_path, questions=QUESTIONS + row)
    with pytest.raises(ConfigError, match=complaint):
        environment.panel_names()


@pytest.mark.parametrize("row", ['{"id": "9"}', '{"contents": 7}', '{"title": "a"}'])
async def test_a_wrong_passage_is_named_by_its_line(tmp_path: Path, row: str) -> None:
    environment = made(tmp_path, corpus=CORPUS + row)
    async with environment.open(environment.panel("test").tasks[0]) as env:
        with pytest.raises(ConfigError, match="line 4: a passage needs"):
            await env.step(Action("<search>x</search>"))


def test_missing_and_empty_files_are_config_errors(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read the collection"):
        create(corpus=tmp_path / "none.jsonl", questions=tmp_path / "none.jsonl")
    with pytest.raises(ConfigError, match="holds no questions"):
        made(tmp_path, questions="").panel_names()
    (tmp_path / "corpus.jsonl").write_text("")
    environment = create(corpus=tmp_path / "corpus.jsonl", questions=tmp_path / "none.jsonl")
    with pytest.raises(ConfigError, match=r"cannot read .*none\.jsonl"):
        environment.panel_names()


def test_half_a_set_of_options_is_a_config_error(tmp_path: Path) -> None:
    for options in (
        {"corpus": "c.jsonl"},
        {"questions": "q.jsonl"},
        {"retriever_url": "http://127.0.0.1:1/retrieve"},
        {"corpus": "c", "questions": "q", "retriever_url": "http://127.0.0.1:1/retrieve"},
    ):
        with pytest.raises(ConfigError, match="together with either"):
            create(**options)


def test_an_unknown_panel_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'train'"):
        made(tmp_path).panel("trian")
