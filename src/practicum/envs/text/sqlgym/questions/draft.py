"""What question forms are made of: nouns, conditions with their SQL, values from the data.

A form is a function that takes a `Scene` (a database to ask about, and random choices) and
drafts one question with its gold query, or raises `NothingFits` where the database has
nothing to ask about in this way. Whether a draft is any good is decided elsewhere, by running it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from practicum.envs.text.sqlgym.domains.model import Column, Domain, Link, Table
from practicum.envs.text.sqlgym.rng import Rng

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Draft:
    """A question and its gold query, not yet tried out."""

    question: str
    sql: str
    plan: str
    """How to get there, in a sentence; the expert's thought."""
    hint: str = ""
    """What a stored abbreviation means."""
    out_of: int | None = None
    """How many rows there would be without the condition that narrows them down."""
    at_least: int = 1
    """Fewer rows make the question pointless."""
    contenders: str = ""
    """A query for the values that decide the first places; equal ones make it ambiguous.
    Needed where groups compete: their order does not follow that of the rows."""


Form = Callable[["Scene"], Draft]


class NothingFits(Exception):  # noqa: N818 - an outcome of drafting, not an error
    """The form cannot be asked of this database with the choices made."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A restriction on the rows of one table."""

    phrase: str
    """As in `whose genre is "crime"`."""
    sql: str
    column: Column
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Relation:
    """A child table, a parent table and the link between them."""

    child: Table
    parent: Table
    link: Link

    @property
    def join(self) -> str:
        """The two tables joined."""
        child, parent = self.child.name, self.parent.name
        return f"{child} JOIN {parent} ON {child}.{self.link.column} = {parent}.{self.parent.key}"


@dataclass(frozen=True)
class Scene:
    """A database to ask about, and the choices to make."""

    domain: Domain
    connection: sqlite3.Connection
    rng: Rng

    def pick(self, items: Sequence[Item]) -> Item:
        """Choose one; none to choose from means that the form does not fit."""
        if not items:
            raise NothingFits
        return self.rng.choice(items)

    def tables(self, *roles: str, is_labelled: bool = True) -> list[Table]:
        """Tables that have columns of all these roles."""
        return [
            t
            for t in self.domain.tables
            if (t.label or not is_labelled)
            and set(roles) <= {c.role for c in t.columns if not c.is_nullable}
        ]

    def relations(
        self, *, child_label: bool = False, parent_label: bool = True, has_number: bool = False
    ) -> list[Relation]:
        """All links between tables that fit."""
        found = []
        for child in self.domain.tables:
            for link in child.links:
                parent = self.domain.table(link.parent)
                if child_label and child.label is None:
                    continue
                if parent_label and parent.label is None:
                    continue
                if has_number and not child.by_role("number"):
                    continue
                found.append(Relation(child, parent, link))
        return found

    def values(self, table: Table, column: Column) -> list[str | int | float]:
        """All values of a column, sorted."""
        sql = f"SELECT {column.name} FROM {table.name} WHERE {column.name} IS NOT NULL ORDER BY 1"
        return [row[0] for row in self.connection.execute(sql)]

    def number(self, table: Table) -> Column:
        """Choose a measured column."""
        return self.pick(table.by_role("number"))

    def condition(
        self, table: Table, *, but: Sequence[Column] = (), is_qualified: bool = False
    ) -> Condition:
        """Choose a restriction that some rows pass and some do not."""
        names = {column.name for column in but}
        columns = table.by_role("category", "number", "year", "date")
        column = self.pick([c for c in columns if c.name not in names])
        name = f"{table.name}.{column.name}" if is_qualified else column.name
        condition = self._condition_on(table, column, name)
        sql = f"SELECT COUNT(*) FROM {table.name} WHERE {condition.sql}"
        if not 0 < self.connection.execute(sql).fetchone()[0] < table.num_rows:
            raise NothingFits
        return condition

    def _condition_on(self, table: Table, column: Column, name: str) -> Condition:
        values = self.values(table, column)
        if column.role == "category":
            return category_condition(name, column, str(self.pick(sorted(set(map(str, values))))))
        bound = values[int((0.25 + 0.5 * self.rng.unit()) * len(values))]
        if column.role == "date":
            return self._date_condition(name, column, str(bound))
        if column.role == "year":
            words, operator = self.pick((("later than", ">"), ("earlier than", "<")))
            return Condition(
                f"whose {column.phrase} is {words} {bound}", f"{name} {operator} {bound}", column
            )
        assert not isinstance(bound, str)
        rounded = _round(bound)
        words, operator = self.pick(
            (("greater than", ">"), ("less than", "<"), ("at least", ">="), ("at most", "<="))
        )
        unit = f" {column.unit}" if column.unit else ""
        return Condition(
            f"whose {column.phrase} is {words} {rounded}{unit}",
            f"{name} {operator} {rounded}",
            column,
        )

    def _date_condition(self, name: str, column: Column, bound: str) -> Condition:
        if self.rng.below(2):
            year = bound[:4]
            sql = f"strftime('%Y', {name}) = '{year}'"
            return Condition(f"whose {column.phrase} is in {year}", sql, column)
        words, operator = self.pick((("after", ">"), ("before", "<")))
        sql = f"{name} {operator} '{bound}'"
        return Condition(f"whose {column.phrase} is {words} {bound}", sql, column)

    def one_label(self, table: Table) -> str:
        """Choose a row by its name."""
        assert table.label is not None
        return str(self.pick(self.values(table, table.label)))

    def busy_label(self, relation: Relation) -> str:
        """Choose a parent that has children."""
        parent = relation.parent
        assert parent.label is not None
        sql = f"SELECT DISTINCT {parent.name}.{parent.label.name} FROM {relation.join} ORDER BY 1"
        return str(self.pick([row[0] for row in self.connection.execute(sql)]))


def category_condition(name: str, column: Column, value: str) -> Condition:
    """Restrict a category to one value, said in words where it is stored as a code."""
    said = column.codes.get(value, value)
    hint = f"{column.phrase} {quoted(said)} is stored as {literal(value)}" if column.codes else ""
    sql = f"{name} = {literal(value)}"
    return Condition(f"whose {column.phrase} is {quoted(said)}", sql, column, hint)


def literal(value: str) -> str:
    """Write a text for SQL."""
    return "'" + value.replace("'", "''") + "'"


def quoted(value: str) -> str:
    """Write a text for a question."""
    return f'"{value}"'


def hints(*conditions: Condition) -> str:
    """The hints of some conditions in one line."""
    said = [c.hint for c in conditions if c.hint]
    return "; ".join(dict.fromkeys(said))


def required(table: Table) -> Column:
    """The label of a table that is known to have one."""
    assert table.label is not None
    return table.label


def _round(value: int | float) -> int | float:
    """Round a bound to two leading digits, as people do; small numbers stay as they are."""
    size = len(str(int(value)))
    if size <= 2:
        return value if isinstance(value, int) else round(value, 1)
    scale = int(10 ** (size - 2))
    return int(value) // scale * scale
