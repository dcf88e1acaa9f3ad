"""WebShop's pages as its text mode shows them: what is on the page, joined by ` [SEP] `.

Only the receipt is shorter: the original's also lists empty fields of its survey.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from practicum.envs.text.webshop.catalogue import Product

SEPARATOR = " [SEP] "
RESULTS_PER_PAGE = 10

SEARCH = "Search"
BACK_TO_SEARCH = "Back to Search"
NEXT_PAGE = "Next >"
PREVIOUS = "< Prev"
BUY_NOW = "Buy Now"
ATTRIBUTES = "Attributes"
TABS = ("Description", "Features", "Reviews")


def search_page(instruction: str) -> str:
    """The page with the search bar."""
    return _join(["WebShop", "Instruction:", instruction, SEARCH])


def results_page(instruction: str, results: Sequence[Product], page: int) -> str:
    """Ten of the results, each with its id, title and price."""
    first = (page - 1) * RESULTS_PER_PAGE
    parts = [*_head(instruction), f"Page {page} (Total results: {len(results)})"]
    parts += results_buttons(len(results), page)
    for product in results[first : first + RESULTS_PER_PAGE]:
        parts += [product.asin, product.title, product.price.tag({})]
    return _join(parts)


def results_buttons(num_results: int, page: int) -> list[str]:
    """The buttons that turn the pages of the results."""
    buttons = [PREVIOUS] if page > 1 else []
    return [*buttons, NEXT_PAGE] if page * RESULTS_PER_PAGE < num_results else buttons


def item_page(
    instruction: str, product: Product, selected: Mapping[str, str], *, shows_attributes: bool
) -> str:
    """A product with its options; the price is a range while it is open."""
    parts = [*_head(instruction), PREVIOUS]
    for name, values in product.options.items():
        parts += [name, *values]
    parts += [
        product.title,
        f"Price: {product.price.tag(selected)}",
        f"Rating: {product.rating}",
        *item_tabs(shows_attributes=shows_attributes),
        BUY_NOW,
    ]
    return _join(parts)


def item_tabs(*, shows_attributes: bool) -> tuple[str, ...]:
    """The tabs of an item page."""
    return (*TABS, ATTRIBUTES) if shows_attributes else TABS


def tab_page(instruction: str, product: Product, tab: str) -> str:
    """One tab of a product."""
    return _join([*_head(instruction), PREVIOUS, *_tab_texts(product, tab)])


def done_page(product: Product, selected: Mapping[str, str], reward: float) -> str:
    """The receipt."""
    return _join(
        [
            "Thank you for shopping with us!",
            "Purchased",
            "asin",
            product.asin,
            "options",
            json.dumps(dict(sorted(selected.items())), ensure_ascii=False),
            "Your score (min 0.0, max 1.0)",
            str(reward),
        ]
    )


def _tab_texts(product: Product, tab: str) -> list[str]:
    if tab == "Description":
        return [product.description or "No Description"]
    if tab == "Features":
        return list(product.bullets) or ["No Features"]
    if tab == ATTRIBUTES:
        return [*product.attributes, product.department, product.query, product.path]
    reviews = [[f'"{r.title}"', str(r.score), r.body] for r in product.reviews]
    return [text for review in reviews for text in review] or ["No reviews found"]


def _head(instruction: str) -> list[str]:
    return ["Instruction:", instruction, BACK_TO_SEARCH]


def _join(parts: Sequence[str]) -> str:
    return SEPARATOR.join(parts)
