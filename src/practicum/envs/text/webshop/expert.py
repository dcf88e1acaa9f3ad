"""Programmed WebShop players. They see what a model sees: pages, and the moves so far.

The expert explains the instruction: every word of it must be accounted for by the kind of
product, by an attribute or by an option that can be selected. A product that leaves a word
unexplained, or costs too much, is put back. It keeps no state: its notes are taken anew
from the history, so it can take over any visit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from random import Random

from practicum.core.agent import Situation
from practicum.core.env import Decision
from practicum.core.message import Action
from practicum.envs.text.webshop import pages
from practicum.envs.text.webshop.reading import Notebook, Visit, prices, take_notes
from practicum.envs.text.webshop.tasks import MAX_TURNS

_PRICE_LIMIT = re.compile(r",? and price lower than (\d+(?:\.\d+)?) dollars")
_WORD = re.compile(r"[a-z0-9]+(?:[.'-][a-z0-9]+)*")
_FILLER = frozenset(
    "a an and am are bag be bottle box buy can comes could find for get good have i in is "
    "it like looking me must need of one or pair please shopping should thank that the "
    "they to want with would you".split()
)
_TURNS_TO_COMPARE = 4
"""With fewer turns left than this, another product could not be bought properly."""
_ATTRIBUTES = pages.ATTRIBUTES.lower()
_FEATURES = "features"


def play_expertly(situation: Situation) -> Decision:
    """Take the next step towards a product that explains the whole instruction."""
    notes = take_notes(situation)
    turns_left = MAX_TURNS - len(situation.history)
    if notes.page.kind == "item":
        return _at_item(notes, turns_left)
    if notes.page.kind == "tab":
        return _at_tab(notes, turns_left)
    if notes.page.kind == "results":
        return _at_results(notes, turns_left)
    keywords = search_words(notes.instruction)
    return _search(keywords, f"I look for {keywords}.")


def play_randomly(situation: Situation) -> Decision:
    """Search for some of the words, or click on anything the page shows."""
    rng = Random(situation.seed)
    page = take_notes(situation).page
    words = words_of(page.instruction) or ("thing",)
    moves = [f"click[{pages.BACK_TO_SEARCH}]", f"click[{pages.PREVIOUS}]"]
    if page.kind == "results":
        moves = [f"click[{listed.asin}]" for listed in page.listed]
        moves += [f"click[{pages.NEXT_PAGE}]"] if page.has_next else []
    elif page.kind == "item":
        values = [value for group in page.options.values() for value in group]
        moves += [f"click[{name}]" for name in [*values, *page.tabs]]
        # Often enough that a random visit mostly ends with a purchase.
        moves += [f"click[{pages.BUY_NOW}]"] * (1 + len(moves) // 3)
    if page.kind == "search" or not moves or rng.random() < 0.1:
        chosen = [rng.choice(words) for _ in range(rng.randint(1, 5))]
        return Decision(Action(f"search[{' '.join(chosen)}]"))
    return Decision(Action(rng.choice(moves)))


def _at_item(notes: Notebook, turns_left: int) -> Decision:
    visit = notes.visits[notes.asin]
    objection = _objection(notes, visit)
    if objection and turns_left > _TURNS_TO_COMPARE:
        return _click(pages.PREVIOUS, f"{objection} I go back to the results.")
    wanted = wanted_options(notes.instruction, visit)
    missing = [name for name in wanted if visit.selected.get(name) != wanted[name]]
    left = unexplained(notes.instruction, visit)
    tab = _tab_to_read(visit)
    if left and tab and turns_left > len(missing) + 3:
        return _click(tab, f"The title does not mention {', '.join(left)}; I check {tab.lower()}.")
    if missing and turns_left > 1:
        name = missing[0]
        return _click(wanted[name], f"The {name} should be {wanted[name]}.")
    if objection or left:
        return _click(pages.BUY_NOW, "There is no time to compare further, so I take this one.")
    chosen = f" in {', '.join(visit.selected.values())}" if visit.selected else ""
    price = visit.page.price.removeprefix("Price: ")
    return _click(pages.BUY_NOW, f"It fits{chosen} at {price}. I buy it.")


def _at_tab(notes: Notebook, turns_left: int) -> Decision:
    objection = _objection(notes, notes.visits[notes.asin])
    if objection and turns_left > _TURNS_TO_COMPARE + 1:
        # Searching again leads back to the results in one turn instead of two.
        return _search(search_words(notes.instruction), f"{objection} I look at the others again.")
    return _click(pages.PREVIOUS, "I have seen enough here; back to the product.")


def _at_results(notes: Notebook, turns_left: int) -> Decision:
    limit = price_limit(notes.instruction)
    page = notes.page
    for listed in page.listed:
        if listed.asin not in notes.visits and (limit is None or listed.lowest_price <= limit):
            return _click(listed.asin, f"{listed.title} at {listed.price} may be the one.")
    if page.has_next and turns_left > 3:
        return _click(pages.NEXT_PAGE, "None of these is left to look at; the next page may help.")
    fallback = next((x.asin for x in page.listed), "")
    if fallback:
        return _click(fallback, "Nothing fits fully; I take the best match.")
    kept = search_words(notes.instruction).split()
    # An earlier search found nothing: fewer words find more.
    shorter = " ".join(kept[: max(1, len(kept) - len(notes.searches))])
    return _search(shorter, "That found nothing; I try fewer words.")


def _objection(notes: Notebook, visit: Visit) -> str:
    """Why a product will not do, as far as is known; empty if it may."""
    limit = price_limit(notes.instruction)
    amounts = prices(visit.page.price)
    wanted = wanted_options(notes.instruction, visit)
    is_set = all(visit.selected.get(name) == value for name, value in wanted.items())
    if limit is not None and (amounts[-1] if is_set else amounts[0]) > limit:
        return f"It costs {visit.page.price.removeprefix('Price: ')}, more than {limit:.2f}."
    words = words_of(notes.instruction)
    for name in visit.page.options:
        if name.split()[0] in words and name not in wanted:
            return f"It does not come in the {name} I need."
    left = unexplained(notes.instruction, visit)
    if left and not _tab_to_read(visit):
        return f"Nothing here says {', '.join(left)}."
    return ""


def _tab_to_read(visit: Visit) -> str:
    """The tab that lists what the product is like, unless it was read."""
    names = {tab.lower(): tab for tab in visit.page.tabs}
    tab = _ATTRIBUTES if _ATTRIBUTES in names else _FEATURES
    return "" if tab in visit.tabs else names.get(tab, "")


def price_limit(instruction: str) -> float | None:
    """The price limit the instruction names, if any."""
    match = _PRICE_LIMIT.search(instruction)
    return float(match[1]) if match else None


@lru_cache(maxsize=512)
def words_of(text: str) -> tuple[str, ...]:
    """The words of a text without its price limit."""
    return tuple(_WORD.findall(_PRICE_LIMIT.sub(" ", text.lower())))


def search_words(instruction: str) -> str:
    """The words worth searching for."""
    return " ".join(word for word in words_of(instruction) if word not in _FILLER)


def wanted_options(instruction: str, visit: Visit) -> dict[str, str]:
    """For each option, the longest of its values that the instruction names."""
    words = words_of(instruction)
    wanted = {}
    for name, values in visit.page.options.items():
        named = [v for v in values if _places(words_of(v), words)]
        if named:
            wanted[name] = max(named, key=lambda v: len(words_of(v)))
    return wanted


def unexplained(instruction: str, visit: Visit) -> list[str]:
    """Words of the instruction that nothing seen of the product accounts for."""
    words = words_of(instruction)
    head, *extras = visit.page.title.split(", ")
    tab = visit.tabs.get(_ATTRIBUTES, ())
    phrases = [*wanted_options(instruction, visit).values(), *extras, *tab[:-3]]
    single = {_singular(w) for w in words_of(" ".join([head, *visit.page.options, *tab[-3:]]))}
    for text in visit.tabs.get(_FEATURES, ()):
        single |= {_singular(w) for w in words_of(text)}
    open_places = {
        place
        for place, word in enumerate(words)
        if word not in _FILLER and _singular(word) not in single
    }
    for phrase in phrases:
        open_places -= _places(words_of(phrase), words)
    return [words[place] for place in sorted(open_places)]


def _places(phrase: Sequence[str], words: Sequence[str]) -> set[int]:
    """Where a phrase stands among the words, as the places it covers."""
    size = len(phrase)
    starts: Iterable[int] = range(len(words) - size + 1) if size else ()
    return {
        place
        for start in starts
        if tuple(words[start : start + size]) == tuple(phrase)
        for place in range(start, start + size)
    }


def _singular(word: str) -> str:
    word = word.removesuffix("'s")
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _search(keywords: str, thought: str) -> Decision:
    return Decision(Action(f"search[{keywords}]"), thought)


def _click(value: str, thought: str) -> Decision:
    return Decision(Action(f"click[{value}]"), thought)
