"""Reads WebShop pages back from their text, for programmed players. Knows no shop."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from practicum.core.agent import Situation
from practicum.envs.text.webshop import pages

OPTION_NAMES = frozenset(
    ["color", "size", "style", "scent", "flavor name", "item shape", "fit type", "pattern name"]
)
"""Names that shops give to options: on a page nothing else sets them apart from values."""

_CLICK = re.compile(r"\s*click\s*\[(.*)\]\s*", re.DOTALL | re.IGNORECASE)
_DOLLARS = re.compile(r"\$(\d+(?:\.\d+)?)")


@dataclass(frozen=True, slots=True)
class Listed:
    """A product as a page of results lists it."""

    asin: str
    title: str
    price: str

    @property
    def lowest_price(self) -> float:
        """The price, or the lower end of the range."""
        return prices(self.price)[0]


@dataclass(frozen=True, slots=True)
class Page:
    """A page, read."""

    kind: str
    """`search`, `results`, `item`, `tab` or, for any other text, `other`."""
    instruction: str = ""
    listed: tuple[Listed, ...] = ()
    has_next: bool = False
    title: str = ""
    price: str = ""
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tabs: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    """Of a tab."""


@dataclass
class Visit:
    """What was seen of one product; `selected` is what is selected on it now."""

    page: Page
    tabs: dict[str, tuple[str, ...]] = field(default_factory=dict)
    selected: dict[str, str] = field(default_factory=dict)


@dataclass
class Notebook:
    """All that the pages so far have shown."""

    instruction: str
    page: Page
    visits: dict[str, Visit] = field(default_factory=dict)
    asin: str = ""
    """The product one is looking at."""
    searches: list[str] = field(default_factory=list)


def take_notes(situation: Situation) -> Notebook:
    """Go through the episode so far."""
    texts = [turn.observation.text for turn in situation.history] + [situation.observation.text]
    first = read_page(texts[0])
    notes = Notebook(first.instruction, first)
    clicked = ""
    for number, text in enumerate(texts):
        page = read_page(text)
        _note(notes, page, clicked)
        if number < len(situation.history):
            action = situation.history[number].action
            said = action.text if action else ""
            match = _CLICK.fullmatch(said)
            clicked = match[1].strip() if match else ""
            if said.strip().lower().startswith("search"):
                notes.searches.append(said)
    return notes


def _note(notes: Notebook, page: Page, clicked: str) -> None:
    if page.kind == "other":
        return  # told that the answer was malformed: one is still on the page before
    before, notes.page = notes.page, page
    if page.kind == "item":
        if before.kind == "results":
            notes.asin = clicked.upper()
            visit = notes.visits.setdefault(notes.asin, Visit(page))
            visit.selected = {}
        visit = notes.visits[notes.asin]
        visit.page = page
        for name, values in page.options.items():
            if before.kind == "item" and clicked.lower() in values:
                visit.selected[name] = clicked.lower()
    if page.kind == "tab" and before.kind == "item":
        notes.visits[notes.asin].tabs[clicked.lower()] = page.texts


@lru_cache(maxsize=512)
def read_page(text: str) -> Page:
    """Read one page."""
    parts = text.split(pages.SEPARATOR)
    if parts[0] == "WebShop":
        return Page("search", parts[2])
    if parts[0] != "Instruction:":
        return Page("other")
    instruction, rest = parts[1], parts[3:]
    if rest[0].startswith("Page "):
        return _read_results(instruction, rest)
    if rest[-1] == pages.BUY_NOW:
        return _read_item(instruction, rest)
    return Page("tab", instruction, texts=tuple(rest[1:]))


def _read_results(instruction: str, rest: Sequence[str]) -> Page:
    buttons = [part for part in rest[1:3] if part in (pages.PREVIOUS, pages.NEXT_PAGE)]
    cells = rest[1 + len(buttons) :]
    listed = [Listed(*cells[i : i + 3]) for i in range(0, len(cells) - 2, 3)]
    return Page("results", instruction, listed=tuple(listed), has_next=pages.NEXT_PAGE in buttons)


def _read_item(instruction: str, rest: Sequence[str]) -> Page:
    price_at = max(i for i, part in enumerate(rest) if part.startswith("Price: "))
    options: dict[str, list[str]] = {}
    name = ""
    for part in rest[1 : price_at - 1]:
        if part in OPTION_NAMES or not name:
            name = part
            options[name] = []
        else:
            options[name].append(part)
    return Page(
        "item",
        instruction,
        title=rest[price_at - 1],
        price=rest[price_at],
        options={name: tuple(values) for name, values in options.items()},
        tabs=tuple(rest[price_at + 2 : -1]),
    )


def prices(shown: str) -> list[float]:
    """The amounts in a price as shown, lowest first."""
    return sorted(float(amount) for amount in _DOLLARS.findall(shown))
