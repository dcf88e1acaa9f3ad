"""Runs SQL that nobody has read: read-only, measured, and capped.

What stops a query that does too much is counted in steps of SQLite's virtual machine, not
in seconds: it is stopped on a fast machine and on a slow one alike. What SQLite itself
cannot stop (one call of a function that takes minutes, memory for sorting) is stopped from
outside by the limits of the guard process that this runs in. Standard library only: the
guard process loads it without the rest of the package.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from practicum.envs.text.sqlgym.matching import Cell, Row

MAX_SQL_CHARS = 20_000
MAX_SHOWN_ROWS = 20
MAX_SHOWN_CHARS = 4_000
MAX_CELL_CHARS = 120
_STEPS_PER_CHECK = 10_000

_ALLOWED_ACTIONS = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
)
_ACTION_NAMES: Mapping[int, str] = {
    getattr(sqlite3, f"SQLITE_{name}"): name.replace("_", " ")
    for name in (
        "ALTER_TABLE", "ANALYZE", "ATTACH", "CREATE_INDEX", "CREATE_TABLE", "CREATE_TEMP_TABLE",
        "CREATE_TEMP_VIEW", "CREATE_TRIGGER", "CREATE_VIEW", "CREATE_VTABLE", "DELETE", "DETACH",
        "DROP_INDEX", "DROP_TABLE", "DROP_TRIGGER", "DROP_VIEW", "DROP_VTABLE", "INSERT",
        "PRAGMA", "REINDEX", "SAVEPOINT", "TRANSACTION", "UPDATE",
    )
}  # fmt: skip
# `random` and `randomblob` would make two equal episodes differ.
_DENIED_FUNCTIONS = frozenset({"load_extension", "fts3_tokenizer", "random", "randomblob"})
# The tables that list the others.
_SYSTEM_TABLES = frozenset({"sqlite_master", "sqlite_schema", "sqlite_temp_master"})
_NO_MEMORY = sqlite3.SQLITE_NOMEM
_DATABASE_FAULTS = frozenset(
    {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOTADB}
)


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one query may take."""

    max_steps: int
    """Of SQLite's virtual machine; the limit that is the same everywhere."""
    max_cpu_s: int
    """Of processor time, for what steps do not count."""
    max_wall_s: float
    """Until the machine is held to be broken."""
    max_value_bytes: int
    """For one text, blob or row."""
    max_memory_bytes: int
    """For the guard process, its interpreter included."""
    max_temp_bytes: int
    """For one temporary file; 0 keeps sorting and grouping in memory."""


SMALL = Limits(
    max_steps=10_000_000,
    max_cpu_s=4,
    max_wall_s=45,
    max_value_bytes=100_000,
    max_memory_bytes=512 << 20,
    max_temp_bytes=0,
)
"""For the generated databases: a query that is not written to explode takes a thousandth."""

LARGE = Limits(
    max_steps=2_000_000_000,
    max_cpu_s=30,
    max_wall_s=55,
    max_value_bytes=1_000_000,
    max_memory_bytes=2 << 30,
    max_temp_bytes=2 << 30,
)
"""For BIRD and Spider, whose databases reach gigabytes; BIRD itself gives 30 seconds."""


class Refused(Exception):  # noqa: N818 - an outcome for the agent, not an error of ours
    """The query was not carried out; the text says why, worded for the agent."""


class OutOfMemory(Refused):
    """The query was stopped for memory; the process it ran in is best not used again."""


class Fault(Exception):  # noqa: N818 - becomes an `EnvError` in the parent process
    """The database is broken, or a reference query is: not the agent's doing."""

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message)
        self.kind = kind


class Reader:
    """A connection for one query; nothing outlives it."""

    def __init__(self, *, image: bytes | None, path: str | None, limits: Limits) -> None:
        self._limits = limits
        self._connection = _connect(image, path)
        self._connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        store = "MEMORY" if limits.max_temp_bytes == 0 else "FILE"
        for pragma in (f"temp_store = {store}", "query_only = 1", "trusted_schema = 0"):
            self._connection.execute(f"PRAGMA {pragma}")
        self._denied = ""
        self._num_checks = 0

    def close(self) -> None:
        """Release everything."""
        self._connection.close()

    def read_trusted(self, sql: str) -> list[Row]:
        """Run a query of ours to its end."""
        try:
            return self._connection.execute(sql).fetchall()
        except (sqlite3.Error, sqlite3.Warning, MemoryError) as error:
            raise Fault(f"the reference query fails: {error}", "gold") from error

    def read(self, sql: str, tables: Sequence[str]) -> tuple[list[str], Iterator[Row]]:
        """Run a query of the agent's: column names, and rows as they are asked for."""
        if len(sql) > MAX_SQL_CHARS:
            raise Refused(f"The query is too long: {len(sql)} of {MAX_SQL_CHARS} characters.")
        self._restrict(tables)
        try:
            cursor = self._connection.execute(sql)
        except _QUERY_ERRORS as error:
            raise self._explain(error) from error
        if cursor.description is None:
            raise Refused("There was no query: give one SELECT statement.")
        return [column[0] for column in cursor.description], self._fetch(cursor)

    def _fetch(self, cursor: sqlite3.Cursor) -> Iterator[Row]:
        try:
            for row in cursor:  # noqa: UP028 - `yield from` would close the cursor, too late
                yield row
        except _QUERY_ERRORS as error:
            raise self._explain(error) from error

    def _restrict(self, tables: Sequence[str]) -> None:
        connection, limits = self._connection, self._limits
        for category, value in (
            (sqlite3.SQLITE_LIMIT_LENGTH, limits.max_value_bytes),
            (sqlite3.SQLITE_LIMIT_SQL_LENGTH, 4 * MAX_SQL_CHARS),
            (sqlite3.SQLITE_LIMIT_ATTACHED, 0),
            (sqlite3.SQLITE_LIMIT_COMPOUND_SELECT, 50),
            (sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 200),
            (sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1_000),
            (sqlite3.SQLITE_LIMIT_VDBE_OP, 100_000),
            (sqlite3.SQLITE_LIMIT_WORKER_THREADS, 0),
        ):
            connection.setlimit(category, value)
        readable = _SYSTEM_TABLES | {name.lower() for name in tables}

        def authorise(
            action: int, first: str | None, second: str | None, database: str | None, _: str | None
        ) -> int:
            denial = _denial(action, first, second, database, readable)
            self._denied = self._denied or denial
            return sqlite3.SQLITE_DENY if denial else sqlite3.SQLITE_OK

        def check_progress() -> int:
            self._num_checks += 1
            return int(self._is_exhausted)

        connection.set_authorizer(authorise)
        connection.set_progress_handler(check_progress, _STEPS_PER_CHECK)

    @property
    def _is_exhausted(self) -> bool:
        return self._num_checks * _STEPS_PER_CHECK >= self._limits.max_steps

    def _explain(self, error: Exception) -> Exception:
        code = getattr(error, "sqlite_errorcode", 0)
        if self._denied:
            return Refused(
                f"Only SELECT statements on the tables are possible; {self._denied} is not allowed."
            )
        if isinstance(error, MemoryError) or code == _NO_MEMORY:
            return OutOfMemory("The query was stopped: it needed too much memory.")
        if self._is_exhausted:
            return Refused("The query was stopped: it took too long. Make it do less.")
        if code == sqlite3.SQLITE_IOERR_WRITE:  # the database is read-only: a temporary file
            return OutOfMemory("The query was stopped: it needed too much temporary space.")
        if code & 0xFF in _DATABASE_FAULTS:
            return Fault(f"the database cannot be read: {error}", "database")
        return Refused(f"SQL error: {error}")


# Whatever the agent typed may do: lone surrogates, NUL characters, numbers out of range.
_QUERY_ERRORS = (sqlite3.Error, sqlite3.Warning, MemoryError, ValueError, OverflowError)


def _connect(image: bytes | None, path: str | None) -> sqlite3.Connection:
    if image is not None:
        connection = sqlite3.connect(":memory:", isolation_level=None)
        connection.deserialize(image)
        return connection
    assert path is not None
    # Immutable: no locks and no look for a journal beside it, also on a read-only disk.
    address = f"{Path(path).as_uri()}?mode=ro&immutable=1"
    try:
        return sqlite3.connect(address, uri=True, isolation_level=None)
    except sqlite3.Error as error:
        raise Fault(
            f"the database {Path(path).name} cannot be opened: {error}", "database"
        ) from error


def _denial(
    action: int,
    first: str | None,
    second: str | None,
    database: str | None,
    readable: frozenset[str],
) -> str:
    """What is refused, in words; empty if nothing is."""
    if action not in _ALLOWED_ACTIONS:
        # SQLite sets up its internal tables, and drops ours, by changing its list of tables.
        is_internal = (first or "").startswith("sqlite_")
        return "this" if is_internal else _ACTION_NAMES.get(action, "this")
    if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _DENIED_FUNCTIONS:
        return f"{second}()"
    # A name from a WITH clause is read as well, but in no database.
    if action == sqlite3.SQLITE_READ and first and database and first.lower() not in readable:
        return f"the table {first}"
    return ""


def show(columns: Sequence[str], rows: Iterator[Row]) -> str:
    """Write a result as the agent sees it: a header, the first rows, how many there were."""
    lines = [" | ".join(_show_cell(name) for name in columns)]
    num_chars = len(lines[0])
    for num_before, row in enumerate(rows):
        line = " | ".join(map(_show_cell, row))
        num_chars += len(line) + 1
        if num_before == MAX_SHOWN_ROWS or num_chars > MAX_SHOWN_CHARS:
            lines.append(f"(the first {num_before} rows; there are more)")
            break
        lines.append(line)
    else:
        lines.append(_count_rows(len(lines) - 1))
    text = "\n".join(lines)
    # A header alone can be too long, with hundreds of columns.
    return text if len(text) <= 2 * MAX_SHOWN_CHARS else f"{text[:MAX_SHOWN_CHARS]}…"


def _count_rows(num_rows: int) -> str:
    return "(no rows)" if num_rows == 0 else f"({num_rows} row{'s' if num_rows > 1 else ''})"


def _show_cell(cell: Cell | Any) -> str:
    if cell is None:
        return "NULL"
    if isinstance(cell, float):
        # 15 digits, as SQLite shows them: the last ones differ between its versions.
        text = f"{cell:.15g}"
        return f"{text}.0" if text.lstrip("-").isdigit() else text
    if isinstance(cell, bytes):
        text = f"x'{cell[:MAX_CELL_CHARS].hex()}'"
    else:
        text = str(cell).replace("\r", "\\r").replace("\n", "\\n")
    return text if len(text) <= MAX_CELL_CHARS else f"{text[:MAX_CELL_CHARS]}…"
