"""WebShop tasks: an instruction in words and the goal it is graded by.

A task's prompt is the instruction; its data names the catalogue and the goal: the product
the instruction was written for, the attributes and options it mentions and its price
limit. Everything is content: no price, limit or order is drawn when a shop is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from practicum.core.task import Task
from practicum.envs.panels import PanelFolder
from practicum.envs.text.webshop.catalogue import Product, Shop
from practicum.envs.text.webshop.draw import below, price_limit, shuffle
from practicum.envs.text.webshop.generate import kind_of, marked_attributes, plain
from practicum.envs.text.webshop.grading import Goal, Options
from practicum.envs.text.webshop.wording import NUM_TEMPLATES, Wish, instruct

ENV_ID = "webshop"
MAX_TURNS = 15
"""AgentGym allows 10; comparing three products and setting three options takes up to 15."""

PANELS = PanelFolder("practicum.envs.text.webshop")

INSTRUCTIONS_PER_PRODUCT = 2
_MAX_ATTRIBUTES = 3
_LIMITED_IN_TEN = 9
"""Of ten instructions, so many name a price limit."""


def make_task(
    catalogue_id: str,
    product: Product,
    instruction: str,
    *,
    attributes: Sequence[str],
    options: Options,
    limit: float | None,
    split: str = "",
) -> Task:
    """Make the task of buying what an instruction asks for."""
    data: dict[str, Any] = {
        "catalogue": catalogue_id,
        "asin": product.asin,
        "attributes": list(attributes),
        "options": dict(options) if isinstance(options, Mapping) else list(options),
        "price_limit": limit,
    }
    num_wishes = len(attributes) + len(options) + (limit is not None)
    return Task.create(
        ENV_ID,
        prompt=instruction,
        data=data,
        split=split,
        difficulty=_difficulty(num_wishes),
        family=f"{catalogue_id}/{product.asin}",
    )


def _difficulty(num_wishes: int) -> str:
    if num_wishes <= 2:
        return "up to 2 wishes"
    return "6 or more wishes" if num_wishes >= 6 else f"{num_wishes} wishes"


def generated_tasks(catalogue_id: str, product: Product, *, split: str = "") -> list[Task]:
    """Write the instructions for a generated product."""
    kind = kind_of(product)
    marked = marked_attributes(kind, product.asin)
    templates = shuffle(range(NUM_TEMPLATES), product.asin, "templates")
    tasks = []
    for number in range(INSTRUCTIONS_PER_PRODUCT):
        key = (product.asin, "instruction", number)
        count = 1 + below(_MAX_ATTRIBUTES, *key, "attributes")
        named = shuffle(marked, *key, "attributes")[:count]
        names = shuffle(tuple(product.options), *key, "options")
        # The first instruction sets every option, the second leaves one or more open.
        names = names[: len(names) if number == 0 else below(len(names), *key, "options")]
        options = {
            name: shuffle(product.options[name], *key, "value", name)[0]
            for name in product.options
            if name in names
        }
        is_limited = below(10, *key, "limited") < _LIMITED_IN_TEN
        limit = price_limit(product.price.paid(options), *key) if is_limited else None
        tasks.append(
            make_task(
                catalogue_id,
                product,
                instruct(Wish(kind, named, options, limit), templates[number]),
                attributes=[plain(a) for a in named],
                options=options,
                limit=limit,
                split=split,
            )
        )
    return tasks


def goal_of(task: Task, shop: Shop) -> Goal:
    """Read a task's goal."""
    data = task.data
    options = data["options"]
    return Goal(
        product=shop.by_asin[data["asin"]],
        attributes=tuple(data["attributes"]),
        options=dict(options) if isinstance(options, Mapping) else tuple(options),
        price_limit=data["price_limit"],
    )
