"""WebShop's reward, from its published formula (Yao et al. 2022, arXiv:2207.01206).

    reward = r_type * (matched attributes + matched options + price is met)
                    / (wanted attributes + wanted options + 1)

An attribute matches by fuzzy comparison with the product's attributes or by standing in
its title, features or description; an option by fuzzy comparison with what was selected;
the price if it is at most the limit. `r_type` falls from 1 if the titles share few nouns.

Three parts are ours. *Nouns*: the original asks spaCy's large English model for nouns and
proper nouns; here every word of a title counts that is no number, function word, common
adjective or participle, which gives the original's published example scores. *Fuzzy
match*: `rapidfuzz` instead of `thefuzz`, which is a wrapper around it; scores are rounded
as there. *Colours*: a value is reduced to a plain colour only where that colour is a word
of it; the original takes any substring, which makes `tan` of `rectangular`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from practicum.envs.text.webshop.catalogue import Product

Options = Mapping[str, str] | Sequence[str]

_MATCH_ABOVE = 85
_TITLE_WORD = re.compile(r"(?<![a-z0-9])[a-z][a-z0-9]*(?:\.[a-z0-9]+)*")
_PARTICIPLE = re.compile(r"[a-z]{2,}[^e\W]ed")
_NO_NOUNS = frozenset(
    "a an and are as at be by for from in into is it its of on or our s t that the this to "
    "with without you your "
    "new old small medium large big long short high low soft light heavy slim wide natural "
    "easy extra super ultimate perfect portable adjustable available compatible great good "
    "best comfortable durable waterproof black white blue green red yellow purple grey gray".split()
)
COLOURS = tuple(
    "apricot aqua azure beige black blue bordeaux bronze brown burgundy champagne charcoal "
    "chocolate copper coral cream cyan fuchsia gold gray green grey indigo ivory khaki "
    "lavender lilac lime magenta maroon mauve mint multicolor mustard navy nude olive orange "
    "peach pink plum purple rainbow red rose rust sapphire silver tan taupe teal turquoise "
    "violet walnut white wine yellow".split()
)
"""Plain colour words, in the order they are looked for."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What is to be bought; never shown to the player."""

    product: Product
    """The product the instruction was written for; others may fit as well."""
    attributes: tuple[str, ...]
    options: Options
    """By name, or as a human instruction gives them: values without names."""
    price_limit: float | None
    """None: any price is met, and the price still counts as one of the wishes."""


@dataclass(frozen=True, slots=True)
class Grade:
    """A purchase, judged: the reward and its parts, each from 0 to 1."""

    reward: float
    r_type: float
    r_attributes: float
    r_options: float | None
    """None: the goal wants no options."""
    r_price: float
    query_match: bool
    category_match: bool
    title_score: float

    def info(self) -> dict[str, Any]:
        """The grade as plain values."""
        return asdict(self)


def grade(bought: Product, selected: Mapping[str, str], goal: Goal) -> Grade:
    """Judge a purchase."""
    query_match = bought.query == goal.product.query
    category_match = len(_categories(bought) & _categories(goal.product)) >= 2
    score = title_score(bought.title, goal.product.title)
    r_type = type_reward(score, is_match=query_match or category_match)
    num_attributes = sum(_has_attribute(bought, wanted) for wanted in goal.attributes)
    num_options = count_options(selected.values(), goal.options)
    limit = goal.price_limit
    is_price_met = limit is None or bought.price.paid(selected) <= limit
    num_wishes = len(goal.attributes) + len(goal.options) + 1
    return Grade(
        reward=r_type * (num_attributes + num_options + is_price_met) / num_wishes,
        r_type=r_type,
        r_attributes=num_attributes / len(goal.attributes),
        r_options=num_options / len(goal.options) if goal.options else None,
        r_price=float(is_price_met),
        query_match=query_match,
        category_match=category_match,
        title_score=score,
    )


def type_reward(score: float, *, is_match: bool) -> float:
    """How far a product is of the wanted type; few common nouns outweigh a match."""
    if score == 0.0:
        return 0.0
    if score < 0.1:
        return 0.1
    return 1.0 if is_match or score > 0.2 else 0.5


def title_score(bought: str, wanted: str) -> float:
    """The share of the wanted title's nouns that the bought title has."""
    nouns = title_nouns(wanted)
    if not nouns:
        return 0.2
    return len(set(title_nouns(bought)) & set(nouns)) / len(nouns)


@lru_cache(maxsize=4096)
def title_nouns(title: str) -> tuple[str, ...]:
    """The words of a title that stand for things, repeats included."""
    words = _TITLE_WORD.findall(title.lower())
    return tuple(w for w in words if w not in _NO_NOUNS and not _PARTICIPLE.fullmatch(w))


def count_options(selected: Collection[str], wanted: Options) -> int:
    """How many wanted options some selected value matches."""
    values = [_plain_colour(value) for value in selected]
    return sum(any(_is_similar(v, w) for v in values) for w in _option_phrases(wanted))


def _option_phrases(wanted: Options) -> list[str]:
    if isinstance(wanted, Mapping):
        # The name is compared with the value, so that `size large` is no `x-large`.
        return [value if value in COLOURS else f"{name} {value}" for name, value in wanted.items()]
    return [_plain_colour(value) for value in wanted]


def _plain_colour(value: str) -> str:
    words = value.lower().split()
    return next((colour for colour in COLOURS if colour in words), value)


def _has_attribute(product: Product, wanted: str) -> bool:
    return any(_is_similar(has, wanted) for has in product.attributes) or any(
        wanted in text.lower()
        for text in (product.title, " ".join(product.bullets), product.description)
    )


def _is_similar(one: str, other: str) -> bool:
    from rapidfuzz import fuzz, utils

    score = fuzz.token_set_ratio(one, other, processor=utils.default_process)
    return round(score) > _MATCH_ABOVE


def _categories(product: Product) -> set[str]:
    return {part.strip() for part in product.path.split("›")}
