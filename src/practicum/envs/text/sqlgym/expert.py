"""Programmed SQLGym players.

The expert is the one player that uses what a model is not shown: the reference query lies
in the task's data, and finding it from the question is the very thing a model must learn.
It plays as a careful person would: look at the tables, try the query, hand it in. The
random player reads only the first message.
"""

from __future__ import annotations

import re
from random import Random

from practicum.core.agent import Situation
from practicum.core.env import Decision
from practicum.core.message import Action

QUERY = "query"
SUBMIT = "submit"
_LOOK_ROWS = 3
_MAX_LOOKS = 2
_SUBMIT_CHANCE = 0.15

_TABLE = re.compile(r"^Table (`.+?`|\w+) has columns such as (.+?)\.(?: .* primary key\.)?$", re.M)
_COLUMN = re.compile(r"(`.+?`|\w+)(?: \([^()]*\))?(?:, |$)")


def play_expertly(situation: Situation) -> Decision:
    """Look at the tables of the reference query, try it, submit it."""
    gold = str(situation.task.data["gold"])
    done = {turn.action.text for turn in situation.history if turn.action is not None}
    for table in tables_of(gold, first_text(situation))[:_MAX_LOOKS]:
        look = f"{QUERY} SELECT * FROM {table} LIMIT {_LOOK_ROWS}"
        if look not in done:
            return Decision(
                Action(look), f"The answer needs {table}. I look at how its rows are written."
            )
    plan = str(situation.task.data.get("plan") or "I know the tables and can write the query.")
    if f"{QUERY} {gold}" not in done:
        return Decision(Action(f"{QUERY} {gold}"), plan)
    return Decision(
        Action(f"{SUBMIT} {gold}"), "The result has the columns and rows that were asked for."
    )


def answer_expertly(situation: Situation) -> Decision:
    """Give the reference query at once, where the first query counts."""
    plan = str(situation.task.data.get("plan") or "I write the query from the schema.")
    return Decision(Action(str(situation.task.data["gold"])), plan)


def play_randomly(situation: Situation) -> Decision:
    """Run, or now and then submit, a query made of names from the schema."""
    rng = Random(situation.seed)
    verb = SUBMIT if rng.random() < _SUBMIT_CHANCE else QUERY
    return Decision(Action(f"{verb} {random_query(rng, first_text(situation))}"))


def answer_randomly(situation: Situation) -> Decision:
    """Give a query made of names from the schema."""
    return Decision(Action(random_query(Random(situation.seed), first_text(situation))))


def random_query(rng: Random, text: str) -> str:
    """Make up a query that runs."""
    tables = read_tables(text)
    table = rng.choice(sorted(tables))
    column, other = rng.choice(tables[table]), rng.choice(tables[table])
    return rng.choice(
        (
            f"SELECT COUNT(*) FROM {table}",
            f"SELECT {column} FROM {table} LIMIT 5",
            f"SELECT DISTINCT {column} FROM {table}",
            f"SELECT {column}, COUNT(*) FROM {table} GROUP BY {column}",
            f"SELECT {column} FROM {table} ORDER BY {other} DESC LIMIT 1",
            f"SELECT MAX({column}) FROM {table} WHERE {other} IS NOT NULL",
        )
    )


def read_tables(text: str) -> dict[str, list[str]]:
    """Read tables and columns from the first message."""
    return {match[1]: _COLUMN.findall(match[2]) for match in _TABLE.finditer(text)}


def tables_of(sql: str, text: str) -> list[str]:
    """The tables of the first message that a query names, in its order."""
    places = {}
    for table in read_tables(text):
        match = re.search(rf"(?<![\w.]){re.escape(table.strip('`'))}\b(?!\.)", sql, re.IGNORECASE)
        if match:
            places[table] = match.start()
    return sorted(places, key=lambda table: places[table])


def first_text(situation: Situation) -> str:
    """The first message of the episode."""
    first = situation.history[0].observation if situation.history else situation.observation
    return first.text
