"""One visit to a shop in plain Python: the page one is on and what a click does there.

The moves are those of WebShop's text mode: `search[…]` works on every page, `click[…]` on
what the page shows, in any case of letters. Going back to the results forgets the options
selected. What is not possible changes nothing and shows the same page again. Unlike the
original, a purchase ends the visit for good: it cannot be repeated and paid twice.
"""

from __future__ import annotations

import re

from practicum.core.env import StepResult
from practicum.core.message import Observation
from practicum.envs.text.webshop import pages
from practicum.envs.text.webshop.catalogue import Product, Shop
from practicum.envs.text.webshop.grading import Goal, grade

MAX_KEYWORDS_CHARS = 1_000

_ACTION = re.compile(r"\s*(search|click)\s*\[(.*)\]\s*", re.DOTALL | re.IGNORECASE)


class Session:
    """A customer with an instruction."""

    def __init__(self, shop: Shop, goal: Goal, instruction: str) -> None:
        self._shop = shop
        self._goal = goal
        self._instruction = instruction
        self._results: tuple[Product, ...] | None = None
        """What the last search found; None on the search page."""
        self._page = 1
        self._product: Product | None = None
        self._tab = ""
        self._selected: dict[str, str] = {}
        self._receipt: str | None = None

    def state_key(self) -> str:
        """The page one is on, what is chosen there, and what the last search found."""
        found = None if self._results is None else [product.asin for product in self._results]
        asin = None if self._product is None else self._product.asin
        chosen = sorted(self._selected.items())
        return str((found, self._page, asin, self._tab, chosen, self._receipt))

    def look(self) -> str:
        """The page one is on."""
        if self._receipt is not None:
            return self._receipt
        if self._product is not None and self._tab:
            return pages.tab_page(self._instruction, self._product, self._tab)
        if self._product is not None:
            return pages.item_page(
                self._instruction,
                self._product,
                self._selected,
                shows_attributes=self._shop.shows_attributes,
            )
        if self._results is not None:
            return pages.results_page(self._instruction, self._results, self._page)
        return pages.search_page(self._instruction)

    def step(self, action: str) -> StepResult:
        """Carry out one action text."""
        match = _ACTION.fullmatch(action)
        if self._receipt is not None or match is None:
            return self._refuse()
        argument = match[2].strip().lower()
        if match[1].lower() == "click":
            return self._click(argument)
        if not argument or len(argument) > MAX_KEYWORDS_CHARS:
            return self._refuse()
        return self._show_results(self._shop.search(argument), 1)

    def _click(self, name: str) -> StepResult:
        if self._results is None:
            return self._refuse()
        if name == pages.BACK_TO_SEARCH.lower():
            self._results, self._page = None, 1
            return self._leave_product()
        if self._product is None:
            return self._click_in_results(name, self._results)
        if self._tab:
            return self._open_tab("") if name == pages.PREVIOUS.lower() else self._refuse()
        return self._click_on_item(name, self._results, self._product)

    def _click_in_results(self, name: str, results: tuple[Product, ...]) -> StepResult:
        buttons = [b.lower() for b in pages.results_buttons(len(results), self._page)]
        if name in buttons:
            turn = 1 if name == pages.NEXT_PAGE.lower() else -1
            return self._show_results(results, self._page + turn)
        first = (self._page - 1) * pages.RESULTS_PER_PAGE
        for product in results[first : first + pages.RESULTS_PER_PAGE]:
            if product.asin.lower() == name:
                self._product = product
                return self._shown()
        return self._refuse()

    def _click_on_item(
        self, name: str, results: tuple[Product, ...], product: Product
    ) -> StepResult:
        if name == pages.PREVIOUS.lower():
            return self._show_results(results, self._page)
        if name == pages.BUY_NOW.lower():
            return self._buy(product)
        for tab in pages.item_tabs(shows_attributes=self._shop.shows_attributes):
            if tab.lower() == name:
                return self._open_tab(tab)
        # The last option with the value wins, as in the original.
        for option, values in reversed(list(product.options.items())):
            if name in values:
                self._selected[option] = name
                return self._shown()
        return self._refuse()

    def _buy(self, product: Product) -> StepResult:
        result = grade(product, self._selected, self._goal)
        self._receipt = pages.done_page(product, self._selected, result.reward)
        return StepResult(
            Observation(self._receipt),
            reward=result.reward,
            is_done=True,
            is_success=result.reward == 1.0,
            info={"asin": product.asin, "options": dict(self._selected), **result.info()},
        )

    def _show_results(self, results: tuple[Product, ...], page: int) -> StepResult:
        self._results, self._page = results, page
        return self._leave_product()

    def _leave_product(self) -> StepResult:
        self._product, self._tab, self._selected = None, "", {}
        return self._shown()

    def _open_tab(self, tab: str) -> StepResult:
        self._tab = tab
        return self._shown()

    def _shown(self) -> StepResult:
        return StepResult(Observation(self.look()))

    def _refuse(self) -> StepResult:
        is_done = self._receipt is not None
        return StepResult(Observation(self.look()), is_refused=True, is_done=is_done)
