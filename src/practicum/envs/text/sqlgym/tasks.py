"""SQLGym tasks: a question about a database, and the query whose result is the answer.

`data` holds the name and hash of the database, the reference query (`gold`), how results
are compared (`match`), a hint that is shown and a plan that is not. Gold and plan are for
the judge and for demonstrations; no observation is ever made from them.
"""

from __future__ import annotations

from practicum.core.task import Task
from practicum.envs.panels import PanelFolder
from practicum.envs.text.sqlgym.databases import Database
from practicum.envs.text.sqlgym.matching import has_top_level_order

ENV_ID = "sqlgym"

PANELS = PanelFolder("practicum.envs.text.sqlgym")


def make_task(
    database: Database,
    question: str,
    gold: str,
    *,
    hint: str = "",
    plan: str = "",
    match: str = "",
    origin: str = "",
    split: str = "",
    difficulty: str = "",
    family: str = "",
) -> Task:
    """Make a task; results are compared in order where the gold query asks for one."""
    data = {
        "database": database.name,
        "hash": database.hash,
        "gold": gold,
        "match": match or ("list" if has_top_level_order(gold) else "bag"),
    }
    # A key that is not there does not count for the task's id.
    data |= {k: v for k, v in {"hint": hint, "plan": plan, "origin": origin}.items() if v}
    return Task.create(ENV_ID, question, data, split=split, difficulty=difficulty, family=family)


def first_observation(task: Task, database: Database) -> str:
    """What the agent sees first: the schema, the question and the hint."""
    hint = task.data.get("hint", "")
    text = f"{database.description}\n\nQuestion: {task.prompt}"
    return f"{text}\nHint: {hint}" if hint else text
