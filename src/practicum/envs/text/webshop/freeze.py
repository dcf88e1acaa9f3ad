"""Builds the shipped panels: `python -m practicum.envs.text.webshop.freeze`.

The split keeps a product's instructions together and holds the same share of every kind:
of each forty products, in hash order, four go to dev, eight to test and the rest to train.
A test rebuilds the panels and compares them with the shipped files.
"""

from __future__ import annotations

from pathlib import Path

from practicum.core.task import Task
from practicum.envs.panels import write_panels
from practicum.envs.text.webshop.draw import shuffle
from practicum.envs.text.webshop.generate import (
    CATALOGUE_ID,
    PRODUCTS_PER_KIND,
    generate_products,
)
from practicum.envs.text.webshop.tasks import generated_tasks

DEV_PER_KIND = 4
TEST_PER_KIND = 8


def build_panels() -> dict[str, list[Task]]:
    """Make every panel from the lexicon alone."""
    products = generate_products()
    panels: dict[str, list[Task]] = {"train": [], "dev": [], "test": []}
    for start in range(0, len(products), PRODUCTS_PER_KIND):
        siblings = products[start : start + PRODUCTS_PER_KIND]
        order = shuffle(range(PRODUCTS_PER_KIND), "split", siblings[0].query)
        for rank, row in enumerate(order):
            split = _split(rank)
            panels[split] += generated_tasks(CATALOGUE_ID, siblings[row], split=split)
    return panels


def _split(rank: int) -> str:
    if rank < DEV_PER_KIND:
        return "dev"
    return "test" if rank < DEV_PER_KIND + TEST_PER_KIND else "train"


if __name__ == "__main__":
    write_panels(Path(__file__).parent / "panels", build_panels())
