"""The bundled collection and its questions."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from practicum.envs.panels import panel_texts
from practicum.envs.text.searchqa import freeze
from practicum.envs.text.searchqa.lands.facts import Land, load_lands
from practicum.envs.text.searchqa.lands.passages import corpus_hash, load_passages
from practicum.envs.text.searchqa.lands.questions import Question
from practicum.envs.text.searchqa.lands.reading import Chain, Contest, read_fact, read_question
from practicum.envs.text.searchqa.lands.wording import COMPARISONS, RELATIONS
from practicum.envs.text.searchqa.scoring import normalise
from practicum.envs.text.searchqa.tasks import PANELS

PINNED_CORPUS_SHA256 = "19ce6197dd4d2184ef64c93742a2c5f5655c0f102032d2cd5696a8225f544360"
"""The panels stand on this text: another one needs another `CORPUS_ID`."""


@cache
def chosen() -> dict[str, list[tuple[Land, Question]]]:
    return freeze.choose_questions()


def all_chosen() -> list[Question]:
    return [question for pairs in chosen().values() for _, question in pairs]


def test_shipped_panels_equal_a_fresh_build() -> None:
    texts = panel_texts(freeze.build_panels())
    assert {name: (PANELS._folder / name).read_text(encoding="utf-8") for name in texts} == texts


def test_the_collection_is_the_one_the_panels_were_made_for() -> None:
    assert corpus_hash(load_passages()) == PINNED_CORPUS_SHA256


def test_panels_hold_all_difficulties() -> None:
    sizes = {name: len(PANELS.load(name)) for name in PANELS.names()}
    assert sizes == {"train": 1943, "dev": 200, "test": 420}
    for name in sizes:
        strata = Counter(task.difficulty for task in PANELS.load(name))
        assert set(strata) == {"1 hop", "2 hops", "3 hops", "comparison"}
        assert min(strata.values()) >= 40


def test_no_fact_is_behind_questions_of_two_splits() -> None:
    split_of: dict[str, str] = {}
    for split, pairs in chosen().items():
        for _, question in pairs:
            for thing, _ in question.facts:
                # Stricter than facts: nothing that is looked up belongs to two splits.
                assert split_of.setdefault(thing, split) == split


def test_no_question_is_asked_twice() -> None:
    assert len({question.text for question in all_chosen()}) == 1943 + 200 + 420


def test_names_are_unique_for_an_answer_check() -> None:
    names = [normalise(document.title) for document in load_passages()]
    assert len(names) == 3400
    assert len(set(names)) == len(names)


def test_names_have_look_alikes() -> None:
    surnames = Counter(name.split()[1] for land in load_lands() for name in land.of_kind("person"))
    assert sum(count > 1 for count in surnames.values()) > len(surnames) * 0.9
    titles = {document.title for document in load_passages()}
    namesakes = [t for t in titles if t.split(" ", 1)[-1] in titles and " " in t]
    assert len(namesakes) > 30


def test_no_question_says_its_answer() -> None:
    for question in all_chosen():
        assert normalise(question.answer) not in normalise(question.text)


def test_every_wording_belongs_to_one_relation() -> None:
    wordings = [w for r in RELATIONS.values() for w in (*r.asks, *r.refers)]
    wordings += [w for c in COMPARISONS for w in (*c.earlier, *c.later)]
    assert len(set(wordings)) == len(wordings)


def test_every_question_is_read_back_as_it_was_meant() -> None:
    for question in all_chosen():
        goal = read_question(question.text)
        if isinstance(goal, Chain):
            assert (goal.start, goal.relations) == (question.facts[0][0], question.shape)
        else:
            assert isinstance(goal, Contest)
            assert {thing for thing, _ in question.facts} == set(goal.things)


def test_every_fact_can_be_read_from_its_passage() -> None:
    texts = {document.title: document.text for document in load_passages()}
    for land in load_lands():
        for (thing, key), value in land.facts.items():
            assert read_fact(thing, texts[thing], RELATIONS[key]) == value


def test_a_passage_gives_no_fact_about_anything_else() -> None:
    texts = {document.title: document.text for document in load_passages()}
    land = load_lands()[0]
    film = next(name for name, key in land.facts if key == "film.novel")
    novel = land.facts[film, "film.novel"]
    assert land.facts[novel, "book.author"] not in texts[film]
    assert film not in texts[novel]


@pytest.mark.parametrize("land", load_lands()[:8], ids=lambda land: land.name)
def test_dates_agree(land: Land) -> None:
    born = {name: land.year(name, "person.birth_year") for name in land.of_kind("person")}
    for (name, key), value in land.facts.items():
        if key == "person.teacher":
            assert born[value] + 15 <= born[name]
        if key == "person.spouse":
            assert land.facts[value, "person.spouse"] == name
            assert abs(born[value] - born[name]) <= 8
        if key == "film.novel":
            assert land.year(value, "book.published") < land.year(name, "film.released")
        if key == "book.publisher":
            published = land.year(name, "book.published")
            assert land.year(value, "company.established") <= published
        if key == "film.studio":
            released = land.year(name, "film.released")
            assert land.year(value, "company.established") <= released


def test_a_comparison_has_one_answer_and_does_not_name_it() -> None:
    for question in all_chosen():
        if question.difficulty == "comparison":
            things = {thing for thing, _ in question.facts}
            assert question.answer not in things
