"""BM25 search: what it finds, in which order, and that it is the same everywhere."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest
from support import require

from practicum.core.canonical import content_hash
from practicum.core.errors import ConfigError
from practicum.envs.text.searchqa import retriever as retriever_module
from practicum.envs.text.searchqa.lands.passages import load_passages
from practicum.envs.text.searchqa.retriever import Bm25Retriever, Document, PassageIndex
from practicum.envs.text.searchqa.tasks import PANELS

PINNED_RESULTS_SHA256 = "c44cabd808034924412e3db8df0cbcc12f9bd9127b76a471d2501d54eb6c6148"
"""Of the results for all dev questions; the panels were proven solvable with these."""


@pytest.fixture(autouse=True)
def _needs_bm25s() -> None:
    require("bm25s", "pip install 'practicum[searchqa]'")


def documents(*texts: str) -> list[Document]:
    return [Document(str(i), f"T{i}", text) for i, text in enumerate(texts)]


def found(index: PassageIndex, query: str, k: int = 3) -> list[str]:
    return [document.id for document in index.search(query, k)]


def test_a_rare_word_counts_more_than_a_common_one() -> None:
    index = PassageIndex(documents("the red house", "the blue house", "the blue boat"))
    assert found(index, "red house") == ["0", "1"]
    assert found(index, "blue boat") == ["2", "1"]


def test_the_title_is_searched_too() -> None:
    index = PassageIndex([Document("a", "Oslo", "a city"), Document("b", "Rome", "a city")])
    assert found(index, "rome") == ["b"]


def test_ties_go_by_position() -> None:
    index = PassageIndex(documents(*["same words"] * 50))
    assert found(index, "words") == ["0", "1", "2"]
    assert found(index, "words", k=50) == [str(i) for i in range(50)]


def test_case_and_punctuation_do_not_matter() -> None:
    index = PassageIndex(documents("Ålesund, by the sea.", "inland"))
    assert found(index, "ÅLESUND!") == ["0"]


def test_a_query_of_unknown_words_finds_nothing() -> None:
    index = PassageIndex(documents("one", "two"))
    assert found(index, "three") == []
    assert found(index, "") == []


def test_the_order_of_passages_is_all_that_changes_with_it() -> None:
    some = list(load_passages()[:200])
    forwards, backwards = PassageIndex(some), PassageIndex(some[::-1])
    for document in some[:20]:
        assert forwards.search(document.title, 1) == backwards.search(document.title, 1)


def test_results_for_the_dev_questions_are_pinned() -> None:
    index = PassageIndex(load_passages())
    results = [found(index, task.prompt) for task in PANELS.load("dev")]
    assert content_hash(results) == PINNED_RESULTS_SHA256


def test_every_passage_is_found_by_its_title() -> None:
    index = PassageIndex(load_passages())
    for document in load_passages()[::7]:
        assert document in index.search(document.title, 3)


async def test_the_index_is_built_once_and_off_the_event_loop() -> None:
    loads: list[threading.Thread] = []

    def load() -> Sequence[Document]:
        loads.append(threading.current_thread())
        return documents("one", "two")

    retriever = Bm25Retriever(load)
    results = await asyncio.gather(*(retriever.retrieve("two", 1) for _ in range(20)))
    assert all([d.id for d in result] == ["1"] for result in results)
    assert len(loads) == 1
    assert loads[0] is not threading.main_thread()


async def test_large_collections_are_searched_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retriever_module, "_MAX_INLINE_PASSAGES", 1)
    retriever = Bm25Retriever(lambda: documents("one", "two"))
    assert [d.id for d in await retriever.retrieve("two", 1)] == ["1"]


async def test_a_missing_engine_is_a_config_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retriever_module, "find_spec", lambda name: None)
    retriever = Bm25Retriever(list)
    with pytest.raises(ConfigError, match=r"pip install 'practicum\[searchqa\]'"):
        await retriever.retrieve("Oslo", 3)


@pytest.mark.parametrize(
    ("contents", "title", "text"),
    [
        ('"Oslo"\nA city.\nIn the north.', "Oslo", "A city.\nIn the north."),
        ("Oslo\nA city.", "Oslo", "A city."),
        ('The "Oslo"\nA ship.', 'The "Oslo"', "A ship."),
        ("Oslo", "Oslo", ""),
        ('"\ntext', '"', "text"),
    ],
)
def test_the_contents_of_wiki_18_are_split(contents: str, title: str, text: str) -> None:
    assert Document.from_contents("7", contents) == Document("7", title, text)
