"""Builds the shipped panels: `python -m practicum.envs.desktop.freeze`.

Panels are split by family, so no test task is a training task with other names. A test
rebuilds them and compares them with the shipped files.
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path

from practicum.core.task import Task
from practicum.envs.desktop.pack import browser, calc, editor, files, terminal
from practicum.envs.desktop.pack.family import Family
from practicum.envs.panels import write_panels

FAMILIES: tuple[Family, ...] = tuple(
    chain(terminal.FAMILIES, editor.FAMILIES, files.FAMILIES, browser.FAMILIES, calc.FAMILIES)
)
NUM_VARIANTS = 3


def build_panels() -> dict[str, list[Task]]:
    """Make every panel; variants of a family are spread out, so that any few tasks are varied."""
    panels: dict[str, list[Task]] = {"train": [], "dev": [], "test": []}
    for variant in range(NUM_VARIANTS):
        for family in FAMILIES:
            panels[family.split].append(family.task(variant).to_task(split=family.split))
    return {**panels, "all": [task for panel in panels.values() for task in panel]}


if __name__ == "__main__":
    write_panels(Path(__file__).parent / "panels", build_panels())
