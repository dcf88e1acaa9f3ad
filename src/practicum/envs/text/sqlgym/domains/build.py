"""Builds a generated database: the same content on every machine, in memory.

The content has a hash of its own, taken before SQLite sees it: the bytes of a database
file differ between SQLite versions, the rows do not.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from practicum.core.canonical import content_hash
from practicum.envs.text.sqlgym.domains.fill import Value, skewed_index
from practicum.envs.text.sqlgym.domains.model import Column, Domain, Table
from practicum.envs.text.sqlgym.rng import Rng

HASH_HEX_DIGITS = 16
_MAX_DRAWS = 1_000

Rows = list[list[Value]]


@dataclass(frozen=True, slots=True)
class Built:
    """A finished database."""

    name: str
    hash: str
    """Of schema and rows."""
    image: bytes
    """What `sqlite3.Connection.deserialize` takes."""


@lru_cache(maxsize=64)
def build(domain_name: str) -> Built:
    """Build a database by the name of its domain."""
    from practicum.envs.text.sqlgym.domains.catalogue import find_domain

    domain = find_domain(domain_name)
    statements = create_statements(domain)
    rows = {made.name: fill_table(domain, made) for made in domain.tables}
    digest = content_hash([statements, rows])[:HASH_HEX_DIGITS]
    return Built(domain_name, digest, _image(statements, rows))


def build_mirrored(domain: Domain) -> bytes:
    """The same database with all keys counted backwards, as an image.

    Whatever is said about names and numbers is as true in it; only what SQLite does with
    equal rows comes out differently. So it shows which queries hinge on that.
    """
    rows: dict[str, Rows] = {}
    for made in domain.tables:
        sizes = {one.column: domain.table(one.parent).num_rows for one in made.links}
        sizes[made.key] = made.num_rows
        names = [column.name for column in made.columns]
        rows[made.name] = [
            [
                sizes[name] + 1 - value if name in sizes and isinstance(value, int) else value
                for name, value in zip(names, row, strict=True)
            ]
            for row in fill_table(domain, made)
        ]
    return _image(create_statements(domain), rows)


def _image(statements: list[str], rows: Mapping[str, Rows]) -> bytes:
    connection = sqlite3.connect(":memory:")
    try:
        for statement in statements:
            connection.execute(statement)
        for name, filled in rows.items():
            marks = ", ".join("?" * len(filled[0]))
            connection.executemany(f"INSERT INTO {name} VALUES ({marks})", filled)
        connection.commit()
        return bytes(connection.serialize())
    finally:
        connection.close()


def create_statements(domain: Domain) -> list[str]:
    """The SQL that makes the empty tables."""
    statements = []
    for made in domain.tables:
        lines = [f"{column.name} {column.type}{_rule(column)}" for column in made.columns]
        for one in made.links:
            target = domain.table(one.parent)
            lines.append(f"FOREIGN KEY ({one.column}) REFERENCES {target.name} ({target.key})")
        statements.append(f"CREATE TABLE {made.name} ({', '.join(lines)})")
    return statements


def _rule(column: Column) -> str:
    if column.role == "key":
        return " PRIMARY KEY"
    return "" if column.is_nullable else " NOT NULL"


def fill_table(domain: Domain, made: Table) -> Rows:
    """Make the rows of a table, in the order of its columns; they follow from the names."""
    rng = Rng("sqlgym", domain.name, made.name)
    parent_of = {one.column: one.parent for one in made.links}
    # Which parents are popular must not follow their number, or ids would give it away.
    popular = {
        name: rng.sample(range(1, size + 1), size)
        for name in sorted(set(parent_of.values()))
        for size in [domain.table(name).num_rows]
    }
    labels: set[Value] = set()
    rows: Rows = []
    for index in range(made.num_rows):
        row: list[Value] = []
        taken: dict[str, set[int]] = {name: set() for name in popular}
        for column in made.columns:
            if column.role == "key":
                row.append(index + 1)
            elif column.role == "link":
                parent = parent_of[column.name]
                row.append(_draw_parent(rng, popular[parent], taken[parent]))
            elif column.role == "label":
                row.append(_draw_label(rng, column, labels))
            else:
                row.append(_draw(rng, column))
        rows.append(row)
    return rows


def _draw_parent(rng: Rng, ids: list[int], taken: set[int]) -> int:
    """Draw a parent the row does not have yet: no team plays against itself."""
    for _ in range(_MAX_DRAWS):
        picked = ids[skewed_index(rng, len(ids))]
        if picked not in taken:
            taken.add(picked)
            return picked
    raise AssertionError("no other parent was drawn")


def _draw_label(rng: Rng, column: Column, seen: set[Value]) -> Value:
    for _ in range(_MAX_DRAWS):
        value = _draw(rng, column)
        if value not in seen:
            seen.add(value)
            return value
    raise AssertionError(f"{column.name} cannot take {len(seen) + 1} different values")


def _draw(rng: Rng, column: Column) -> Value:
    assert column.fill is not None, f"{column.name} has nothing to fill it"
    return column.fill(rng)
