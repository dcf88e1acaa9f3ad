"""Questions about the lands: chains of facts and comparisons, each with one right answer.

A question that names its own answer is left out, and so is one whose answer could be told
from its words: a comparison asks for something about the older of two things, never for
which one it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from practicum.core.canonical import stable_seed
from practicum.envs.text.searchqa.lands.draws import SEED, pick
from practicum.envs.text.searchqa.lands.facts import Land
from practicum.envs.text.searchqa.lands.wording import COMPARISONS, RELATIONS, Comparison
from practicum.envs.text.searchqa.scoring import normalise

MAX_HOPS = 3

Fact = tuple[str, str]
"""A thing and a relation of it."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question in words, its answer, and the facts that lead there."""

    text: str
    answer: str
    facts: tuple[Fact, ...]
    """Looked up in this order; the last one gives the answer."""
    difficulty: str
    shape: tuple[str, ...]
    """The relations, without the things: questions of one shape differ in names only."""


def questions_about(land: Land) -> list[Question]:
    """Every question about a land that has one answer and does not give it away."""
    known = _with_inverses(land)
    found = [question for name in land.kinds for question in _chains(known, name)]
    for comparison in COMPARISONS:
        found += _comparisons(land, comparison)
    return [question for question in found if not _gives_itself_away(question)]


def choose(questions: Sequence[Question], counts: Mapping[str, int]) -> list[Question]:
    """Take so many of each difficulty, all shapes in turn, in hash order."""
    chosen: list[Question] = []
    for difficulty, count in counts.items():
        by_shape: dict[tuple[str, ...], list[Question]] = {}
        for question in sorted((q for q in questions if q.difficulty == difficulty), key=_rank):
            by_shape.setdefault(question.shape, []).append(question)
        rounds = max(map(len, by_shape.values()), default=0)
        in_turn = [queue[i] for i in range(rounds) for queue in by_shape.values() if i < len(queue)]
        chosen += in_turn[:count]
    return chosen


def _with_inverses(land: Land) -> dict[str, dict[str, str]]:
    """Relations by thing, read backwards too wherever that leads to exactly one thing."""
    known: dict[str, dict[str, str]] = {name: {} for name in land.kinds}
    for (name, key), value in land.facts.items():
        known[name][key] = value
    for relation in RELATIONS.values():
        if not relation.inverse_of:
            continue
        sources: dict[str, list[str]] = {}
        for (name, key), value in land.facts.items():
            if key == relation.inverse_of:
                sources.setdefault(value, []).append(name)
        for value, names in sources.items():
            if len(names) == 1:
                known[value][relation.key] = names[0]
    return known


def _chains(known: Mapping[str, Mapping[str, str]], start: str) -> Iterator[Question]:
    waiting: list[tuple[tuple[Fact, ...], tuple[str, ...]]] = [((), (start,))]
    while waiting:
        facts, visited = waiting.pop()
        for key, value in known[visited[-1]].items():
            if value in visited:
                continue
            path = (*facts, (visited[-1], key))
            yield _chain_question(path, value)
            if len(path) < MAX_HOPS and RELATIONS[key].refers:
                waiting.append((path, (*visited, value)))


def _chain_question(facts: tuple[Fact, ...], answer: str) -> Question:
    shape = tuple(key for _, key in facts)
    start = facts[0][0]
    # One hash for all its wordings: there are a hundred thousand questions to put in words.
    seed = stable_seed(SEED, "words", start, *shape)
    phrase = start
    for key in shape[:-1]:
        seed, i = divmod(seed, len(RELATIONS[key].refers))
        phrase = RELATIONS[key].refers[i].format(x=phrase)
    asks = RELATIONS[shape[-1]].asks
    text = asks[seed % len(asks)].format(x=phrase)
    hops = "1 hop" if len(facts) == 1 else f"{len(facts)} hops"
    return Question(text, answer, facts, hops, shape)


def _comparisons(land: Land, comparison: Comparison) -> Iterator[Question]:
    names = [name for name, key in land.facts if key == comparison.by]
    for pair in combinations(names, 2):
        first, second = sorted(pair, key=lambda name: land.year(name, comparison.by))
        answers = {land.facts.get((name, comparison.then)) for name in pair}
        is_open = len(answers) == 2 and None not in answers
        if not is_open or land.year(first, comparison.by) == land.year(second, comparison.by):
            continue
        wants_first = pick((True, False), "which", *pair)
        wordings = comparison.earlier if wants_first else comparison.later
        a, b = pair if pick((True, False), "order", *pair) else reversed(pair)
        winner = first if wants_first else second
        yield Question(
            pick(wordings, "compares", *pair).format(a=a, b=b),
            land.facts[winner, comparison.then],
            (*((name, comparison.by) for name in pair), (winner, comparison.then)),
            "comparison",
            (comparison.by, comparison.then, str(wants_first)),
        )


def _gives_itself_away(question: Question) -> bool:
    said = set(normalise(question.text).split())
    return any(word in said for word in normalise(question.answer).split())


def _rank(question: Question) -> int:
    return stable_seed(SEED, "choose", question.text)
