"""Finds the database a task is about, and checks that it is the one the task was made for."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from practicum.core.canonical import content_hash
from practicum.core.errors import ConfigError, unknown_name
from practicum.envs.text.sqlgym.domains.build import HASH_HEX_DIGITS, build
from practicum.envs.text.sqlgym.pool import Source
from practicum.envs.text.sqlgym.sandbox import LARGE, SMALL
from practicum.envs.text.sqlgym.schema import ForeignKey, describe, read_schema


@dataclass(frozen=True, slots=True)
class Database:
    """A database that can be asked, and described."""

    name: str
    hash: str
    description: str
    source: Source


class Databases(Protocol):
    """Databases by name."""

    def find(self, name: str) -> Database:
        """Find one; an unknown name is a `ConfigError`."""
        ...


class GeneratedDatabases:
    """The databases this package builds, in memory."""

    def find(self, name: str) -> Database:
        """Build one, or take it from memory."""
        return _generated(name)


@lru_cache(maxsize=64)
def _generated(name: str) -> Database:
    built = build(name)
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(built.image)
        schema = read_schema(connection)
    source = Source(f"{name}/{built.hash}", schema.table_names, SMALL, image=built.image)
    return Database(name, built.hash, describe(name, schema), source)


class FileDatabases:
    """The databases of a data set the user has: `<folder>/<name>/<name>.sqlite`."""

    def __init__(
        self, folders: Sequence[Path], foreign_keys: Mapping[str, Sequence[ForeignKey]]
    ) -> None:
        self._folders = folders
        self._foreign_keys = foreign_keys
        self._found: dict[str, Database] = {}

    def find(self, name: str) -> Database:
        """Open one and read its schema, or take it from memory."""
        if name not in self._found:
            self._found[name] = self._read(name)
        return self._found[name]

    def _read(self, name: str) -> Database:
        paths = [
            folder / name / f"{name}{ending}"
            for folder in self._folders
            for ending in (".sqlite", ".db")
        ]
        path = next((path for path in paths if path.is_file()), None)
        if path is None:
            names = {entry.name for folder in self._folders for entry in folder.iterdir()}
            raise unknown_name("database", name, names)
        address = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
        try:
            with closing(sqlite3.connect(address, uri=True)) as connection:
                schema = read_schema(connection, self._foreign_keys.get(name, ()))
        except sqlite3.Error as error:
            raise ConfigError(f"{path} is not a database that SQLite reads: {error}") from error
        description = describe(name, schema)
        # Data sets reach gigabytes: schema and size tell versions apart well enough.
        digest = content_hash([description, path.stat().st_size])[:HASH_HEX_DIGITS]
        source = Source(f"{name}/{digest}", schema.table_names, LARGE, path=str(path.resolve()))
        return Database(name, digest, description, source)
