"""A database as annotated data: its tables, and the words to speak of them.

The annotations serve twice: they build the database, and they let question forms speak of
any database ("books by the author …", "airlines with more than 3 flights") without knowing
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from practicum.envs.text.sqlgym.domains.fill import (
    Fill,
    day,
    real,
    skewed,
    sometimes_missing,
    whole,
)

Role = Literal["key", "label", "category", "number", "year", "date", "link"]


@dataclass(frozen=True)
class Column:
    """One column and the words for it."""

    name: str
    role: Role
    phrase: str
    fill: Fill | None = field(default=None, repr=False)
    type: str = "INTEGER"
    unit: str = ""
    can_sum: bool = False
    """A total makes sense: of prices it does, of ratings it does not."""
    is_nullable: bool = False
    codes: Mapping[str, str] = field(default_factory=dict)
    """Stored value -> what it means, for columns that hold abbreviations."""


@dataclass(frozen=True)
class Link:
    """A foreign key from a child table to the primary key of a parent, in words."""

    column: str
    parent: str
    phrase: str
    """Between child and parent: books *by* the author …"""
    noun: str
    """The parent as the child has it: the *author* of a book."""
    counted: str = ""
    """The children as the parent has them: authors with 3 *books*."""


@dataclass(frozen=True)
class Table:
    """One table and the words for its rows."""

    name: str
    singular: str
    plural: str
    num_rows: int
    columns: tuple[Column, ...]
    links: tuple[Link, ...] = ()

    @cached_property
    def key(self) -> str:
        """Name of the primary key."""
        return next(c.name for c in self.columns if c.role == "key")

    @cached_property
    def label(self) -> Column | None:
        """The unique name a row is known by; events such as loans have none."""
        return next((c for c in self.columns if c.role == "label"), None)

    def by_role(self, *roles: Role) -> list[Column]:
        """Columns of these roles that are never empty."""
        return [c for c in self.columns if c.role in roles and not c.is_nullable]


@dataclass(frozen=True)
class Domain:
    """A database by name."""

    name: str
    tables: tuple[Table, ...]
    """Parents before their children."""

    def table(self, name: str) -> Table:
        """Find a table by name."""
        return next(t for t in self.tables if t.name == name)


def table(
    name: str, singular: str, num_rows: int, *parts: Column | Link, plural: str = ""
) -> Table:
    """Write down a table; a `Link` among the parts is also the column that holds it."""
    plural = plural or f"{singular}s"
    columns: list[Column] = []
    links: list[Link] = []
    for part in parts:
        if isinstance(part, Link):
            links.append(part if part.counted else replace(part, counted=plural))
            columns.append(Column(part.column, "link", part.noun))
        else:
            columns.append(part)
    return Table(name, singular, plural, num_rows, tuple(columns), tuple(links))


def key(name: str) -> Column:
    """The primary key, counted from 1."""
    return Column(name, "key", "id")


def label(name: str, phrase: str, fill: Fill) -> Column:
    """The unique name of a row."""
    return Column(name, "label", phrase, fill, type="TEXT")


def category(name: str, phrase: str, *values: str) -> Column:
    """One of a few texts."""
    return Column(name, "category", phrase, skewed(values), type="TEXT")


def coded(name: str, phrase: str, codes: Mapping[str, str]) -> Column:
    """A category stored as abbreviations."""
    return Column(name, "category", phrase, skewed(tuple(codes)), type="TEXT", codes=codes)


def count(name: str, phrase: str, low: int, high: int, *, unit: str = "") -> Column:
    """A whole number of things; a total makes sense."""
    return Column(name, "number", phrase, whole(low, high), unit=unit, can_sum=True)


def measure(
    name: str, phrase: str, low: int, high: int, *, digits: int = 0, unit: str = ""
) -> Column:
    """A number on a scale; a total makes no sense."""
    fill = real(low, high, digits) if digits else whole(low, high)
    return Column(name, "number", phrase, fill, "REAL" if digits else "INTEGER", unit)


def money(name: str, phrase: str, low: int, high: int) -> Column:
    """An amount in euros and cents."""
    return Column(name, "number", phrase, real(low, high, 2), "REAL", "euros", can_sum=True)


def year(name: str, phrase: str, low: int, high: int) -> Column:
    """A year as a number."""
    return Column(name, "year", phrase, whole(low, high))


def date(name: str, phrase: str, first: str, last: str) -> Column:
    """A day as `YYYY-MM-DD`."""
    return Column(name, "date", phrase, day(first, last), type="TEXT")


def maybe(column: Column) -> Column:
    """The same column with some values missing."""
    assert column.fill is not None
    return replace(column, fill=sometimes_missing(column.fill), is_nullable=True)
