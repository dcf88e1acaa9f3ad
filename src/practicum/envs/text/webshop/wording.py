"""Instructions in words: how a wish for attributes, options and a price is put.

Six ways of saying it, from the formulaic (`Find me slim fit men's t-shirts & tanks with
short sleeve …`, as WebShop's synthetic instructions) to the conversational (as its human
ones). Every wish is named in words that some page of a fitting product shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from practicum.envs.text.webshop.lexicon import Kind

NUM_TEMPLATES = 6


@dataclass(frozen=True, slots=True)
class Wish:
    """What an instruction asks for; attributes carry the lexicon's marks."""

    kind: Kind
    attributes: Sequence[str]
    options: Mapping[str, str]
    price_limit: float | None


def instruct(wish: Wish, template: int) -> str:
    """Put a wish into words."""
    phrase = (_formulaic, _looking, _need, _question, _shopping, _plain)[template]
    return phrase(wish) + price_words(wish.price_limit)


def price_words(limit: float | None) -> str:
    """The price limit as every WebShop instruction puts it."""
    return "" if limit is None else f", and price lower than {limit:.2f} dollars"


def option_words(options: Mapping[str, str]) -> str:
    """Options as WebShop's synthetic instructions put them."""
    listed = ", and ".join(f"{name}: {value}" for name, value in options.items())
    return f" with {listed}" if listed else ""


def _formulaic(wish: Wish) -> str:
    is_, with_, for_ = _sorted_by_mark(wish.attributes)
    words = f"Find me {', '.join(is_)} {wish.kind.query}" if is_ else f"Find me {wish.kind.query}"
    words += f" with {', '.join(with_)}" if with_ else ""
    words += f" for {', '.join(for_)}" if for_ else ""
    return words + option_words(wish.options)


def _looking(wish: Wish) -> str:
    is_, with_, for_ = _sorted_by_mark(wish.attributes)
    words = f"i am looking for {_a(wish.kind.noun)}"
    words += f" that is {' and '.join(is_)}" if is_ else ""
    joined = " and" if is_ else " that"
    words += f"{joined} comes with {' and '.join(with_)}" if with_ else ""
    words += f", good for {' and '.join(for_)}" if for_ else ""
    return words + _spoken_options(wish.options, "in {value}", "in size {value}", "in {value}")


def _need(wish: Wish) -> str:
    is_, with_, for_ = _sorted_by_mark(wish.attributes)
    words = f"i need {_a(' '.join([*is_, wish.kind.noun]))}"
    words += f" with {' and '.join(with_)}" if with_ else ""
    words += f" for {' and '.join(for_)}" if for_ else ""
    return words + _spoken_options(wish.options, "color {value}", "size {value}", "{value}")


def _question(wish: Wish) -> str:
    is_, with_, for_ = _sorted_by_mark(wish.attributes)
    words = (
        f"can you find me {_a(', '.join(is_) + ' ' + wish.kind.noun if is_ else wish.kind.noun)}"
    )
    words += f" for {' and '.join(for_)}" if for_ else ""
    words += "?"
    words += f" it should have {' and '.join(with_)}." if with_ else ""
    wanted = _spoken_options(wish.options, "{value} color", "a size {value}", "the {value} one")
    return words + (f" i would like{wanted.removeprefix(',')}" if wanted else " thank you")


def _shopping(wish: Wish) -> str:
    is_, with_, for_ = _sorted_by_mark(wish.attributes)
    spoken = [f"{name} {value}" for name, value in wish.options.items()]
    words = f"i am shopping for {wish.kind.query}"
    words += f" for {' and '.join(for_)}" if for_ else ""
    listed = [*is_, *with_, *spoken]
    return words + (f". they must be or have: {', '.join(listed)}" if listed else "")


def _plain(wish: Wish) -> str:
    is_, with_, for_ = _sorted_by_mark(wish.attributes)
    words = f"please buy me {_a(wish.kind.noun)}"
    listed = [*is_, *(f"with {a}" for a in with_), *(f"for {a}" for a in for_)]
    words += f" ({', '.join(listed)})" if listed else ""
    return words + _spoken_options(wish.options, "{value}", "size {value}", "{value}")


def _spoken_options(options: Mapping[str, str], colour: str, size: str, other: str) -> str:
    forms = {"color": colour, "size": size}
    spoken = [forms.get(name, other).format(value=value) for name, value in options.items()]
    return f", {', '.join(spoken)}" if spoken else ""


def _sorted_by_mark(attributes: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
    return (
        [a for a in attributes if a[0] not in "+@"],
        [a[1:] for a in attributes if a.startswith("+")],
        [a[1:] for a in attributes if a.startswith("@")],
    )


def _a(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" and not noun.startswith("usb") else f"a {noun}"
