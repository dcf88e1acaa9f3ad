"""WebShop in this process: search a catalogue, open a product, set its options, buy it.

Observations are the page texts of WebShop's text mode, as AgentGym serves them; buying
ends the episode and pays WebShop's graded reward. The built-in shop is generated and has
an Attributes tab on every product; `create(data_dir=...)` opens the original WebShop's
files instead, without that tab, as AgentGym does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from practicum.core.commands import Command
from practicum.core.env import Script, StepResult
from practicum.core.errors import ConfigError, unknown_name
from practicum.core.message import Action, Observation
from practicum.core.task import Panel, Task
from practicum.envs.text.webshop import expert, tasks
from practicum.envs.text.webshop.catalogue import Shop
from practicum.envs.text.webshop.generate import CATALOGUE_ID
from practicum.envs.text.webshop.session import Session
from practicum.envs.text.webshop.shops import generated_shop, original_data

RULES = """\
You are shopping in a web shop. Every page repeats an instruction that says what to buy. \
Buy the product that fits it best; buying ends the visit, and you are graded on the type \
of product, the attributes, the options and the price.

- search[keywords] searches the catalogue; it works on every page. At most 50 results are \
shown, ten to a page.
- click[value] clicks on something the page shows: a product id, a button such as Next >, \
< Prev, Back to Search or Buy Now, a tab such as Features, or the value of an option such \
as a size.

The parts of a page are joined by [SEP]. On a product's page the options come first, each \
name followed by its values. Clicking a value selects it; the page does not mark what is \
selected, and going back to the results forgets it. A price shown as a range depends on an \
option: select it to see the price, or pay the highest. An action that is not possible \
changes nothing and shows the same page again."""

COMMANDS = (
    Command("search", "search[{keywords}]", "search the catalogue"),
    Command("click", "click[{value}]", "click on something the page shows"),
)

_INLINE_PRODUCTS = 20_000
"""Larger catalogues are searched in a thread: there a search takes long enough to notice."""


class WebShopEnv:
    """One episode of one WebShop task."""

    def __init__(self, task: Task, shop: Shop) -> None:
        self._session = Session(shop, tasks.goal_of(task, shop), task.prompt)
        self._is_slow = len(shop.products) > _INLINE_PRODUCTS

    async def start(self) -> Observation:
        """Show the search page with the instruction."""
        return Observation(self._session.look())

    async def step(self, action: Action) -> StepResult:
        """Carry out one action."""
        if self._is_slow:
            return await asyncio.to_thread(self._session.step, action.text)
        return self._session.step(action.text)

    def state_key(self) -> str:
        """The page, and the search it came from."""
        return self._session.state_key()


class WebShop:
    """WebShop without a server: one shared catalogue, no state between episodes."""

    id = tasks.ENV_ID
    rules = RULES
    commands: Sequence[Command] = COMMANDS
    max_turns = tasks.MAX_TURNS
    scripts: Mapping[str, Script] = {
        "expert": expert.play_expertly,
        "random": expert.play_randomly,
    }

    def __init__(self, data_dir: Path | None = None) -> None:
        self._data_dir = data_dir

    def panel_names(self) -> Sequence[str]:
        """Names of the panels: the shipped ones, or those of the user's files."""
        if self._data_dir is None:
            return tasks.PANELS.names()
        return tuple(original_data(self._data_dir).panels)

    def panel(self, name: str) -> Panel:
        """Load a panel."""
        if self._data_dir is None:
            return tasks.PANELS.load(name)
        panels = original_data(self._data_dir).panels
        if name not in panels:
            raise unknown_name("panel", name, panels)
        return panels[name]

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncIterator[WebShopEnv]:
        """Open one episode; the first builds the shop, beside the event loop."""
        shop = await asyncio.to_thread(self._shop)
        wanted = task.data["catalogue"]
        if wanted != shop.id:
            folder = "the folder it was made from"
            hint = "no data_dir" if wanted == CATALOGUE_ID else f"data_dir= {folder}"
            raise ConfigError(
                f"task {task.id} is of catalogue {wanted!r} and this shop is {shop.id!r}: "
                f"call create with {hint}"
            )
        yield WebShopEnv(task, shop)

    async def aclose(self) -> None:
        """Release nothing: the shop stays for the next environment of this process."""

    def _shop(self) -> Shop:
        if self._data_dir is None:
            return generated_shop()
        return original_data(self._data_dir).shop


def create(data_dir: str | Path | None = None) -> WebShop:
    """Make the environment; called by the registry. With a folder: the original's files."""
    return WebShop(None if data_dir is None else Path(data_dir))
