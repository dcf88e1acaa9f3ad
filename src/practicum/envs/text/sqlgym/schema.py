"""Reads the schema of a database and says it in words.

The sentences are those of AgentGym's SQLGym with three differences: names are the real
ones (not lower-cased titles that no query can use), each column has its type, and a
foreign key names the columns it really joins.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*")
_IN_BRACKETS = re.compile(r"\(.*?\)")


@dataclass(frozen=True, slots=True)
class Table:
    """A table with its columns and their types."""

    name: str
    columns: tuple[tuple[str, str], ...]
    primary_key: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """A column that holds the key of another table."""

    table: str
    column: str
    parent: str
    parent_column: str


@dataclass(frozen=True, slots=True)
class Schema:
    """What a database is made of."""

    tables: tuple[Table, ...]
    foreign_keys: tuple[ForeignKey, ...]

    @property
    def table_names(self) -> tuple[str, ...]:
        """Names of tables and views."""
        return tuple(table.name for table in self.tables)


def read_schema(connection: sqlite3.Connection, known: Sequence[ForeignKey] = ()) -> Schema:
    """Read tables and views, and foreign keys the database declares or that are known."""
    names = [
        str(row[0])
        for row in connection.execute(
            "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') "
            "AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY rowid"
        )
    ]
    tables = tuple(_read_table(connection, name) for name in names)
    by_name = {table.name.lower(): table for table in tables}
    declared = [key for table in tables for key in _read_keys(connection, table, by_name)]
    # Case differs between the two places that tell of a key.
    keys = {
        (k.table.lower(), k.column.lower(), k.parent.lower(), k.parent_column.lower()): k
        for k in (*known, *declared)
    }
    return Schema(tables, tuple(keys.values()))


def _read_table(connection: sqlite3.Connection, name: str) -> Table:
    rows = connection.execute(f"PRAGMA table_info({_quote(name)})").fetchall()
    key = [(row[5], row[1]) for row in rows if row[5]]
    return Table(
        name,
        tuple((row[1], _IN_BRACKETS.sub("", row[2]).strip().lower()) for row in rows),
        tuple(column for _, column in sorted(key)),
    )


def _read_keys(
    connection: sqlite3.Connection, table: Table, by_name: dict[str, Table]
) -> list[ForeignKey]:
    rows = connection.execute(f"PRAGMA foreign_key_list({_quote(table.name)})").fetchall()
    keys = []
    for _, place, parent_name, column, parent_column, *_ in sorted(rows, key=lambda r: r[:2]):
        parent = by_name.get(parent_name.lower())
        if parent is None:
            continue  # it points to a table that is not there
        if parent_column is None:  # meaning: to the primary key
            if place >= len(parent.primary_key):
                continue
            parent_column = parent.primary_key[place]  # noqa: PLW2901
        keys.append(ForeignKey(table.name, column, parent.name, parent_column))
    return keys


def describe(name: str, schema: Schema) -> str:
    """Say a schema in words, one table a line."""
    lines = [f"{name} contains tables such as {', '.join(map(shown, schema.table_names))}."]
    for table in schema.tables:
        columns = ", ".join(
            f"{shown(column)} ({kind})" if kind else shown(column) for column, kind in table.columns
        )
        line = f"Table {shown(table.name)} has columns such as {columns}."
        if len(table.primary_key) == 1:
            line += f" {shown(table.primary_key[0])} is the primary key."
        elif table.primary_key:
            line += f" {', '.join(map(shown, table.primary_key))} are the primary key."
        lines.append(line)
    lines += [
        f"The {shown(key.column)} of {shown(key.table)} is the foreign key of "
        f"{shown(key.parent_column)} of {shown(key.parent)}."
        for key in schema.foreign_keys
    ]
    return "\n".join(lines)


def shown(name: str) -> str:
    """Write a name as it can be used in a query."""
    return name if _PLAIN_NAME.fullmatch(name) else f"`{name}`"


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
