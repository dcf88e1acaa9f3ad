"""Reads `lexicon.toml`: the words the generated catalogue is made of."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of product and what its members may be like."""

    noun: str
    """As an instruction names one: `men's t-shirt`."""
    query: str
    """As WebShop's data names the kind: `men's t-shirts & tanks`."""
    title: str
    """Its nouns stand in every title of the kind: grading tells kinds apart by them."""
    department: str
    path: str
    price: tuple[int, int]
    """Whole dollars, lowest and highest of the kind."""
    styles: tuple[str, ...]
    attributes: tuple[str, ...]
    """`+` marks what a product comes with, `@` what it is for."""
    options: Mapping[str, tuple[str, ...]]
    priced_option: str
    """The option that the price may depend on, its values from cheap to dear; or empty."""


@dataclass(frozen=True, slots=True)
class Lexicon:
    """All the words there are."""

    kinds: tuple[Kind, ...]
    brands: tuple[str, ...]
    lines: tuple[str, ...]


@cache
def load_lexicon() -> Lexicon:
    """Read the words, once per process."""
    text = (files(__package__ or "") / "lexicon.toml").read_text(encoding="utf-8")
    words = tomllib.loads(text)
    pools: dict[str, list[str]] = words["pools"]
    kinds = []
    for row in words["kinds"]:
        # An option is either a list of values or the name of a shared list.
        options = {
            name: tuple(pools[values] if isinstance(values, str) else values)
            for name, values in row["options"].items()
        }
        kinds.append(
            Kind(
                noun=row["noun"],
                query=row["query"],
                title=row["title"],
                department=row["department"],
                path=row["path"],
                price=(row["price"][0], row["price"][1]),
                styles=tuple(row["styles"]),
                attributes=tuple(row["attributes"]),
                options=options,
                priced_option=row.get("priced_option", ""),
            )
        )
    return Lexicon(tuple(kinds), tuple(words["brands"]), tuple(words["lines"]))
