"""Chooses questions for a database: drafts are run, and only sound ones are kept.

A sound gold query gives a result that is not empty, not the whole table, not a bare 0 or
NULL, and that does not hinge on how SQLite happens to order equal rows; so an answer
written another way gives the same rows. Ties for a place, duplicate rows and lists longer
than a person would read are thrown out.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass

from practicum.envs.text.sqlgym.domains.build import build, build_mirrored
from practicum.envs.text.sqlgym.domains.model import Domain
from practicum.envs.text.sqlgym.matching import Match, Row, has_top_level_order, is_match
from practicum.envs.text.sqlgym.questions import easy, extra, hard, medium
from practicum.envs.text.sqlgym.questions.draft import Draft, Form, NothingFits, Scene
from practicum.envs.text.sqlgym.rng import Rng

STRATA: Mapping[str, tuple[Form, ...]] = {
    "easy": easy.FORMS,
    "medium": medium.FORMS,
    "hard": hard.FORMS,
    "extra": extra.FORMS,
}
NUM_PER_STRATUM = 18
MAX_PER_FORM = 3
MAX_ROWS = 60
_MAX_TRIES = 40
"""Drafts of one form before it is given up for this database."""

Rows = list[Row]

_TRIVIAL: frozenset[Row] = frozenset({(None,), (0,), (0.0,), (100.0,)})
"""Results one would guess."""


@dataclass(frozen=True, slots=True)
class Question:
    """A draft that has proved sound."""

    draft: Draft
    form: str
    stratum: str


def choose_questions(domain: Domain) -> list[Question]:
    """All questions for one database, easy ones first."""
    with (
        closing(sqlite3.connect(":memory:")) as connection,
        closing(sqlite3.connect(":memory:")) as mirrored,
    ):
        connection.deserialize(build(domain.name).image)
        mirrored.deserialize(build_mirrored(domain))
        return [
            question
            for stratum, forms in STRATA.items()
            for question in _choose(domain, _Bench(connection, mirrored), stratum, forms)
        ]


@dataclass(frozen=True, slots=True)
class _Bench:
    """Where drafts are tried out."""

    connection: sqlite3.Connection
    mirrored: sqlite3.Connection

    def is_sound(self, draft: Draft) -> bool:
        """Whether the gold query has one result worth asking for."""
        rows: Rows = self.connection.execute(draft.sql).fetchall()
        if not draft.at_least <= len(rows) <= MAX_ROWS or rows[0] in _TRIVIAL:
            return False
        if draft.out_of is not None and len(rows) >= draft.out_of:
            return False
        if not _all_different(rows):
            return False
        if draft.contenders:
            first: Rows = self.connection.execute(draft.contenders).fetchall()
            if not _all_different(first):
                return False
        how: Match = "list" if has_top_level_order(draft.sql) else "bag"
        return is_match(self.mirrored.execute(draft.sql), rows, how)


def _choose(domain: Domain, bench: _Bench, stratum: str, forms: tuple[Form, ...]) -> list[Question]:
    """Go round the forms, so that each gives its share."""
    scenes = {
        form: Scene(domain, bench.connection, Rng("questions", domain.name, form.__name__))
        for form in forms
    }
    chosen: dict[str, Question] = {}
    for _ in range(MAX_PER_FORM):
        for form in forms:
            draft = _draft_sound(form, scenes[form], bench, chosen)
            if draft is not None and len(chosen) < NUM_PER_STRATUM:
                chosen[draft.sql] = Question(draft, form.__name__, stratum)
    return list(chosen.values())


def _draft_sound(
    form: Form, scene: Scene, bench: _Bench, chosen: Mapping[str, Question]
) -> Draft | None:
    for _ in range(_MAX_TRIES):
        try:
            draft = form(scene)
        except NothingFits:
            continue
        if draft.sql not in chosen and bench.is_sound(draft):
            return draft
    return None


def _all_different(rows: Rows) -> bool:
    return len(set(rows)) == len(rows)
