"""Builds the shipped panels: `python -m practicum.envs.text.sqlgym.freeze`.

A split takes whole databases, as Spider does: the tables of dev and test questions appear
in no training question. A family is one form of question about one database ("three
highest …", with other columns and values); every database gives the same number of
questions in each of the four strata. A test rebuilds the panels and compares.
"""

from __future__ import annotations

from pathlib import Path

from practicum.core.task import Task
from practicum.envs.panels import write_panels
from practicum.envs.text.sqlgym.databases import GeneratedDatabases
from practicum.envs.text.sqlgym.domains.catalogue import SPLITS
from practicum.envs.text.sqlgym.questions.selection import choose_questions
from practicum.envs.text.sqlgym.tasks import make_task


def build_panels() -> dict[str, list[Task]]:
    """Make every panel from the domains and the question forms alone."""
    databases = GeneratedDatabases()
    panels: dict[str, list[Task]] = {}
    for split, domains in SPLITS.items():
        panels[split] = [
            make_task(
                databases.find(domain.name),
                question.draft.question,
                question.draft.sql,
                hint=question.draft.hint,
                plan=question.draft.plan,
                split=split,
                difficulty=question.stratum,
                family=f"{domain.name}/{question.form}",
            )
            for domain in domains
            for question in choose_questions(domain)
        ]
    return panels


if __name__ == "__main__":
    write_panels(Path(__file__).parent / "panels", build_panels())
