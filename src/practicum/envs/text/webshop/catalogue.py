"""What a shop sells. Immutable, so one copy serves every episode of a process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property

from practicum.core.canonical import content_hash
from practicum.envs.text.webshop.search import SearchIndex


@dataclass(frozen=True, slots=True)
class Price:
    """What a product costs, and what the shop shows of it. Fixed by content, never drawn."""

    low: float
    high: float
    otherwise: float
    """Paid unless `by_value` says differently."""
    option: str = ""
    """The option that decides the price; empty if none does."""
    by_value: Mapping[str, float] = field(default_factory=dict)

    def paid(self, selected: Mapping[str, str]) -> float:
        """The price of the product with these options."""
        return self.by_value.get(selected.get(self.option, ""), self.otherwise)

    def tag(self, selected: Mapping[str, str]) -> str:
        """The price as shown: a range until the deciding option is selected."""
        if selected.get(self.option, "") in self.by_value:
            return f"${self.paid(selected)}"
        return f"${self.low}" if self.low == self.high else f"${self.low} to ${self.high}"


@dataclass(frozen=True, slots=True)
class Review:
    """What a buyer wrote."""

    title: str
    score: int
    body: str


@dataclass(frozen=True, slots=True)
class Product:
    """One product, with the fields of WebShop's data that pages and grading use."""

    asin: str
    title: str
    department: str
    query: str
    path: str
    """Categories from wide to narrow, joined by ` › `."""
    description: str
    bullets: tuple[str, ...]
    attributes: tuple[str, ...]
    options: Mapping[str, tuple[str, ...]]
    price: Price
    rating: str = "N.A."
    reviews: tuple[Review, ...] = ()

    def search_text(self) -> str:
        """What the search engine indexes: as in WebShop, only the first bullet."""
        options = ", and ".join(f"{name}: {', '.join(v)}" for name, v in self.options.items())
        return " ".join([self.title, self.description, *self.bullets[:1], options])


class Shop:
    """A catalogue with its search engine."""

    def __init__(
        self, catalogue_id: str, products: Sequence[Product], *, shows_attributes: bool
    ) -> None:
        self.id = catalogue_id
        self.products = tuple(products)
        self.by_asin: Mapping[str, Product] = {p.asin: p for p in self.products}
        self.shows_attributes = shows_attributes
        """Item pages have an Attributes tab, which AgentGym's WebShop hides."""
        self.index = SearchIndex([product.search_text() for product in self.products])

    def search(self, keywords: str) -> tuple[Product, ...]:
        """The best matches, at most fifty."""
        return tuple(self.products[row] for row in self.index.search(keywords))

    @cached_property
    def hash(self) -> str:
        """Hash of all products: equal means the same shop."""
        return content_hash([asdict(product) for product in self.products])
