"""Reading questions and passages about the lands: the wordings, backwards.

For programmed players. What is read here is what a model is shown, and nothing else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from practicum.envs.text.searchqa.lands.passages import slots
from practicum.envs.text.searchqa.lands.sentences import SENTENCES
from practicum.envs.text.searchqa.lands.wording import COMPARISONS, RELATIONS, YEAR, Relation

_TITLE = "\0"


@dataclass(frozen=True, slots=True)
class Chain:
    """Start at a thing and follow relations."""

    start: str
    relations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Contest:
    """Follow a relation from whichever of two things comes first or last."""

    things: tuple[str, str]
    by: str
    then: str
    wants_first: bool


def read_question(text: str) -> Chain | Contest | None:
    """Work out what a question asks for; None if its wording is not one of ours."""
    for comparison in COMPARISONS:
        for wants_first, wordings in ((True, comparison.earlier), (False, comparison.later)):
            for wording in wordings:
                if match := _wording_pattern(wording).fullmatch(text):
                    things = (match["a"], match["b"])
                    return Contest(things, comparison.by, comparison.then, wants_first)
    for relation in RELATIONS.values():
        for wording in relation.asks:
            match = _wording_pattern(wording).fullmatch(text)
            chain = _read_phrase(match["x"], relation.kind) if match else None
            if chain is not None:
                return Chain(chain.start, (*chain.relations, relation.key))
    return None


def _read_phrase(phrase: str, kind: str) -> Chain | None:
    """Read a noun phrase that stands for a thing of some kind."""
    if phrase[:1].isupper():
        return Chain(phrase, ())
    for relation in RELATIONS.values():
        if relation.value != kind:
            continue
        for wording in relation.refers:
            match = _wording_pattern(wording).fullmatch(phrase)
            chain = _read_phrase(match["x"], relation.kind) if match else None
            if chain is not None:
                return Chain(chain.start, (*chain.relations, relation.key))
    return None


def read_fact(title: str, text: str, relation: Relation) -> str | None:
    """Find a fact about the thing a passage is titled after."""
    # The title is blotted out first: where it ends inside a sentence is then beyond doubt.
    for sentence in re.split(r"(?<=\.) ", text.replace(title, _TITLE)):
        for pattern in _sentence_patterns(relation):
            if match := pattern.fullmatch(sentence):
                return match["value"].replace(_TITLE, title)
    return None


def _stating(relation: Relation) -> list[str]:
    groups = SENTENCES[relation.kind]
    return [wording for group in groups for wording in group if relation.slot in slots(wording)]


@cache
def _wording_pattern(wording: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\\{(\w)\\\}", r"(?P<\1>.+)", re.escape(wording)))


@cache
def _sentence_patterns(relation: Relation) -> tuple[re.Pattern[str], ...]:
    inner = r"\d+" if relation.value == YEAR else r".+?"

    def pattern(wording: str) -> re.Pattern[str]:
        text = re.escape(wording)
        text = text.replace(rf"\{{{relation.slot}\}}", f"(?P<value>{inner})")
        text = text.replace(r"\{name\}", re.escape(_TITLE))
        return re.compile(re.sub(r"\\\{\w+\\\}", ".+?", text))

    return tuple(map(pattern, _stating(relation)))
