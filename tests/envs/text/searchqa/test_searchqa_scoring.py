"""Exact match and F1, with values worked out by hand."""

from __future__ import annotations

import pytest

from practicum.envs.text.searchqa.scoring import exact_match, f1, normalise


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("The Silent Harbour", "silent harbour"),
        ("  A  tale,\nan end. ", "tale end"),
        ("rock'n'roll", "rocknroll"),
        ("Theatre of the absurd", "theatre of absurd"),
        ("U.S.A.", "usa"),
        ("", ""),
    ],
)
def test_normalising_follows_squad(text: str, plain: str) -> None:
    assert normalise(text) == plain


def test_an_answer_may_equal_any_golden_one() -> None:
    assert exact_match("the Eiffel tower.", ["La tour Eiffel", "Eiffel Tower"])
    assert not exact_match("Eiffel", ["Eiffel Tower"])


def test_an_article_does_not_equal_every_other_article() -> None:
    assert exact_match("The The", ["the the"])
    assert not exact_match("a", ["the the"])
    assert not exact_match(".", ["the"])


def test_f1_is_the_best_overlap_of_words() -> None:
    # One of one word right, one of two found: precision 1, recall 1/2.
    assert f1("Eiffel", ["the Eiffel Tower"]) == pytest.approx(2 / 3)
    # Two shared words of three on each side.
    assert f1("in 1889 Paris", ["Paris in spring"]) == pytest.approx(2 / 3)
    assert f1("Lyon", ["Paris", "Lyon"]) == 1.0
    assert f1("Berlin", ["Paris"]) == 0.0
    # A repeated word is not found more often than it stands there.
    assert f1("paris paris paris", ["Paris"]) == pytest.approx(0.5)
