"""Programmed SearchQA players. They see what a model sees: the question and the results.

The expert knows how the lands are worded. It follows the question from fact to fact, looks
up what the results so far do not say, and answers. It keeps no state: all it knows is read
from the history, so it can take over any half-played episode.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from practicum.core.agent import Situation
from practicum.core.env import Decision
from practicum.core.message import Action
from practicum.envs.text.searchqa.lands.reading import (
    Chain,
    Contest,
    read_fact,
    read_question,
)
from practicum.envs.text.searchqa.lands.wording import RELATIONS

NO_IDEA = "unknown"

_RESULT = re.compile(r'Doc \d+\(Title: "(.*?)"\) (.*?)(?:</information>)?$', re.MULTILINE)
_NAME = re.compile(r"[A-Z]\w+(?: (?:of the )?[A-Z]\w+)*|\d{4}")


class _Missing(Exception):  # noqa: N818 - a turn of the reasoning, not an error
    """No result so far states a fact; look it up."""

    def __init__(self, thing: str, relation: str) -> None:
        super().__init__(thing, relation)
        self.thing = thing
        self.relation = relation


@dataclass
class _Notes:
    """What the results say, and the steps that were taken on them."""

    passages: Mapping[str, str]
    steps: list[str] = field(default_factory=list)

    def look_up(self, thing: str, key: str) -> str:
        relation = RELATIONS[key]
        if relation.inverse_of:
            value = self._find_subject(thing, relation.inverse_of)
        else:
            value = read_fact(thing, self.passages.get(thing, ""), relation)
        if value is None:
            raise _Missing(thing, key)
        step = f"{_wanted(thing, key)} is {value}"
        if step not in self.steps:
            self.steps.append(step)
        return value

    def _find_subject(self, value: str, key: str) -> str | None:
        for title, text in self.passages.items():
            if read_fact(title, text, RELATIONS[key]) == value:
                return title
        return None


def play_expertly(situation: Situation) -> Decision:
    """Look up the next fact, or answer."""
    notes = _Notes(_passages(situation))
    goal = read_question(_question(situation))
    try:
        answer = _solve(goal, notes) if goal else NO_IDEA
    except _Missing as missing:
        tried = {turn.action.text for turn in situation.history if turn.action}
        for query in RELATIONS[missing.relation].queries:
            action = search(query.format(x=missing.thing))
            if action.text not in tried:
                thought = [*notes.steps, f"I look up {_wanted(missing.thing, missing.relation)}"]
                return Decision(action, _sentences(thought))
        answer = NO_IDEA
    return Decision(give_answer(answer), _sentences([*notes.steps, f"I answer {answer}"]))


def play_randomly(situation: Situation) -> Decision:
    """Search for, or answer with, some words that were shown."""
    rng = Random(situation.seed)
    names = _NAME.findall(situation.observation.text) or [NO_IDEA]
    if rng.random() < 0.7:
        return Decision(search(" ".join(rng.choice(names) for _ in range(2))))
    return Decision(give_answer(rng.choice(names)))


def search(query: str) -> Action:
    """The action of searching."""
    return Action(f"<search>{query}</search>")


def give_answer(text: str) -> Action:
    """The action of answering."""
    return Action(f"<answer>{text}</answer>")


def _solve(goal: Chain | Contest, notes: _Notes) -> str:
    if isinstance(goal, Chain):
        value = goal.start
        for key in goal.relations:
            value = notes.look_up(value, key)
        return value
    a, b = goal.things
    a_is_first = int(notes.look_up(a, goal.by)) < int(notes.look_up(b, goal.by))
    return notes.look_up(a if a_is_first == goal.wants_first else b, goal.then)


def _wanted(thing: str, key: str) -> str:
    relation = RELATIONS[key]
    if relation.refers:
        return relation.refers[0].format(x=thing)
    return f"the answer to '{relation.asks[0].format(x=thing)}'"


def _sentences(parts: list[str]) -> str:
    return " ".join(f"{part[0].upper()}{part[1:]}." for part in parts)


def _question(situation: Situation) -> str:
    first = situation.history[0].observation if situation.history else situation.observation
    return first.text.removeprefix("Question: ")


def _passages(situation: Situation) -> dict[str, str]:
    shown = [turn.observation for turn in situation.history] + [situation.observation]
    return {title: text for seen in shown for title, text in _RESULT.findall(seen.text)}
