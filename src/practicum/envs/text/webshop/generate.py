"""Makes the built-in catalogue: 1,200 products of thirty kinds, from words and hashes.

Products of one kind compete: they share nouns and draw from the same twelve attributes, so
telling them apart takes reading. Half of a product's attributes stand in its title, two
more in its description, all of them in its features, of which the search engine knows only
the first; and its price may depend on the option chosen.
"""

from __future__ import annotations

from practicum.core.canonical import stable_seed
from practicum.envs.text.webshop.catalogue import Price, Product, Review
from practicum.envs.text.webshop.draw import below, pick, shuffle
from practicum.envs.text.webshop.lexicon import Kind, Lexicon, load_lexicon

CATALOGUE_ID = "generated-1"
PRODUCTS_PER_KIND = 40

_ASIN_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_CENTS = (0.99, 0.95, 0.49, 0.89, 0.79)
_ONE_OF = ("sleeve", "fit", "wash", "roast")
"""A product has at most one attribute that ends in each of these."""
_PRICED_IN_TEN = 4
"""Of ten products whose kind allows it, so many have prices that depend on an option."""

_OPENERS = (
    "A {noun} from the {line} line by {brand}, made to be used every day",
    "The {brand} {line} is our most asked-for {noun}",
    "Designed by {brand}: a {noun} with an eye for detail",
    "{brand} has made every {noun} of the {line} line with care since the first batch",
)
_FEATURES = (
    "{Attribute} - one of the reasons people come back to {brand}",
    "{Attribute}: tested by our team before it leaves the warehouse",
    "Buyers praise it for being what it says: {attribute}",
    "{Attribute}, without paying extra for it",
    "What sets the {line} line apart: {attribute}",
)
_DESCRIPTIONS = (
    "Meet the {line} {noun}. {first} and {second} in one product. Questions are answered "
    "within a day.",
    "{brand} built this {noun} around two ideas: {first} and {second}. It makes a thoughtful gift.",
    "Looking for something that lasts? The {line} {noun} brings {first}, {second} and a "
    "thirty day return policy.",
)
_REVIEW_TITLES = (
    "Does the job",
    "Pleasantly surprised",
    "As described",
    "Not bad",
    "Would buy again",
)
_REVIEW_BODIES = (
    "Arrived on time and looks like the pictures.",
    "I compared a few and kept this one.",
    "Good value, though the packaging could be better.",
    "My second one; the first is still going strong.",
)


def plain(attribute: str) -> str:
    """An attribute without the mark that says how to phrase it."""
    return attribute.lstrip("+@")


def generate_products() -> list[Product]:
    """Make all products; the same every time."""
    lexicon = load_lexicon()
    return [
        _product(lexicon, kind, number)
        for kind in lexicon.kinds
        for number in range(PRODUCTS_PER_KIND)
    ]


def kind_of(product: Product) -> Kind:
    """The kind a generated product was made from."""
    return next(kind for kind in load_lexicon().kinds if kind.query == product.query)


def marked_attributes(kind: Kind, asin: str) -> list[str]:
    """A product's attributes with their marks, in the order drawn."""
    chosen: list[str] = []
    wanted = 4 + below(3, asin, "how many attributes")
    for attribute in shuffle(kind.attributes, asin, "attributes"):
        ending = attribute.rsplit(" ", 1)[-1]
        if ending in _ONE_OF and any(a.endswith(" " + ending) for a in chosen):
            continue
        chosen.append(attribute)
        if len(chosen) == wanted:
            break
    return chosen


def _product(lexicon: Lexicon, kind: Kind, number: int) -> Product:
    asin = _asin(kind, number)
    brand = pick(lexicon.brands, asin, "brand")
    line = pick(lexicon.lines, asin, "line")
    style = pick(kind.styles, asin, "style")
    attributes = [plain(a) for a in marked_attributes(kind, asin)]
    shown = attributes[: len(attributes) // 2]
    words = {"brand": brand, "line": line, "noun": kind.noun}
    title = ", ".join([f"{brand} {kind.title} {style}", *(a.title() for a in shown), line])
    # The description makes up for the title, so that a search can find most of the rest.
    first, second = (attributes[len(shown) :] + shown)[:2]
    options = _options(kind, asin)
    return Product(
        asin=asin,
        title=title,
        department=kind.department,
        query=kind.query,
        path=kind.path,
        description=pick(_DESCRIPTIONS, asin, "description").format(
            first=first.capitalize(), second=second, **words
        ),
        bullets=(
            pick(_OPENERS, asin, "opener").format(**words),
            *(
                pick(_FEATURES, asin, "feature", a).format(
                    attribute=a, Attribute=a.capitalize(), **words
                )
                for a in shuffle(attributes, asin, "bullets")
            ),
        ),
        attributes=tuple(attributes),
        options=options,
        price=_price(kind, asin, options),
        rating=f"{3 + below(20, asin, 'rating') / 10:.1f}",
        reviews=_reviews(asin),
    )


def _asin(kind: Kind, number: int) -> str:
    seed = stable_seed(CATALOGUE_ID, kind.query, number)
    digits = []
    for _ in range(8):
        seed, digit = divmod(seed, len(_ASIN_DIGITS))
        digits.append(_ASIN_DIGITS[digit])
    return "B0" + "".join(digits)


def _options(kind: Kind, asin: str) -> dict[str, tuple[str, ...]]:
    options = {}
    for name, values in kind.options.items():
        count = min(len(values), 3 + below(4, asin, "how many", name))
        kept = set(shuffle(values, asin, "values", name)[:count])
        options[name] = tuple(value for value in values if value in kept)
    return options


def _price(kind: Kind, asin: str, options: dict[str, tuple[str, ...]]) -> Price:
    low, high = kind.price
    base = round(low + below(high - low, asin, "price") + pick(_CENTS, asin, "cents"), 2)
    name = kind.priced_option
    if not name or below(10, asin, "priced by option") >= _PRICED_IN_TEN:
        return Price(base, base, base)
    step = max(1.0, round(base * 0.15))
    by_value = {value: round(base + step * i, 2) for i, value in enumerate(options[name])}
    dearest = max(by_value.values())
    # Who leaves the option open pays the highest price: leaving it open is no bargain.
    return Price(base, dearest, dearest, name, by_value)


def _reviews(asin: str) -> tuple[Review, ...]:
    return tuple(
        Review(
            pick(_REVIEW_TITLES, asin, "review title", i),
            3 + below(3, asin, "review score", i),
            pick(_REVIEW_BODIES, asin, "review body", i),
        )
        for i in range(below(3, asin, "how many reviews"))
    )
