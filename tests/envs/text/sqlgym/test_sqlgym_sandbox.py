"""Queries that want more than to read."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from practicum.envs.text.sqlgym.databases import GeneratedDatabases
from practicum.envs.text.sqlgym.pool import GuardPool, Reply, Request, Source
from practicum.envs.text.sqlgym.sandbox import MAX_SHOWN_CHARS, MAX_SHOWN_ROWS, SMALL

ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT COUNT(*) FROM c"
CINEMA = GeneratedDatabases().find("cinema").source


@pytest_asyncio.fixture
async def pool() -> AsyncIterator[GuardPool]:
    made = GuardPool(2)
    yield made
    await made.aclose()


async def ask(pool: GuardPool, sql: str, source: Source = CINEMA) -> Reply:
    return await pool.ask(Request(source, sql))


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO halls VALUES (99, 'x', 1, '2D')",
        "UPDATE halls SET seats = 0",
        "DELETE FROM halls",
        "REPLACE INTO halls VALUES (1, 'x', 1, '2D')",
        "DROP TABLE halls",
        "ALTER TABLE halls RENAME TO rooms",
        "CREATE TABLE loot (x)",
        "CREATE TEMP TABLE loot (x)",
        "CREATE VIRTUAL TABLE loot USING fts5(x)",
        "CREATE INDEX i ON halls (seats)",
        "WITH x AS (SELECT 1) DELETE FROM halls",
        "PRAGMA table_info(halls)",
        "PRAGMA query_only = 0",
        "PRAGMA hard_heap_limit = 1",
        "SELECT * FROM pragma_database_list",
        "ATTACH '/etc/passwd' AS loot",
        "ATTACH ':memory:' AS loot",
        "DETACH main",
        "VACUUM",
        "VACUUM INTO '/tmp/loot.sqlite'",
        "REINDEX",
        "ANALYZE",
        "BEGIN",
        "COMMIT",
        "SAVEPOINT s",
        "SELECT load_extension('libc.so.6')",
        "SELECT fts3_tokenizer('simple')",
        "SELECT random()",
        "SELECT hex(randomblob(8))",
        "SELECT * FROM sqlite_stmt",
        "SELECT * FROM dbstat",
        "SELECT 1; SELECT 2",
        "SELECT 1; DROP TABLE halls",
        "",
        ";",
        "-- only a remark",
        "SELECT \x00",
        "SELECT '\ud800'",
        "SELECT ?",
        "SELECT :name",
        "(" * 5_000,
        "SELECT " + "(" * 300 + "1" + ")" * 300,
        "SELECT " + "1, " * 30_000 + "1",
        " UNION ".join(["SELECT 1"] * 60),
        "SELECT * FROM nowhere",
        "SELECT readfile('/etc/passwd')",
    ],
)
async def test_anything_but_one_reading_query_is_refused(pool: GuardPool, sql: str) -> None:
    reply = await ask(pool, sql)
    assert reply.outcome == "refused"
    assert reply.text
    assert len(reply.text) < 500
    assert "root:" not in reply.text


async def test_refused_queries_change_nothing(pool: GuardPool) -> None:
    before = await ask(pool, "SELECT COUNT(*), SUM(seats) FROM halls")
    for sql in ("DELETE FROM halls", "UPDATE halls SET seats = 0", "DROP TABLE halls"):
        await ask(pool, sql)
    assert await ask(pool, "SELECT COUNT(*), SUM(seats) FROM halls") == before
    assert not Path("/tmp/loot.sqlite").exists()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT name FROM sqlite_master WHERE type = 'table'",
        "WITH big AS (SELECT * FROM halls WHERE seats > 200) SELECT COUNT(*) FROM big",
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 5) SELECT * FROM n",
        "SELECT h.seats, RANK() OVER (ORDER BY h.seats) FROM main.halls AS h",
        "SELECT strftime('%Y', day), GROUP_CONCAT(DISTINCT slot) FROM screenings GROUP BY 1",
        "VALUES (1, 2), (3, 4)",
        "select Title from FILMS where title like '%river%' or title glob 'The*'",
    ],
)
async def test_reading_queries_of_all_kinds_run(pool: GuardPool, sql: str) -> None:
    assert (await ask(pool, sql)).outcome == "shown"


async def test_endless_query_is_stopped_and_is_the_agents_doing(pool: GuardPool) -> None:
    reply = await ask(pool, ENDLESS)
    assert reply == Reply("refused", "The query was stopped: it took too long. Make it do less.")
    assert (await ask(pool, "SELECT 1")).outcome == "shown"


async def test_limit_counts_work_and_not_seconds(pool: GuardPool) -> None:
    """The same query is stopped at the same place however busy the machine is."""
    source = replace(CINEMA, limits=replace(SMALL, max_steps=200_000))
    counting = (
        "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT {}) "
        "SELECT MAX(x) FROM c"
    )
    small = await ask(pool, counting.format(5_000), source)
    large = await asyncio.gather(*(ask(pool, counting.format(50_000), source) for _ in range(6)))
    assert small.outcome == "shown"
    assert {reply.outcome for reply in large} == {"refused"}


async def test_one_call_that_takes_minutes_is_ended_by_the_kernel(pool: GuardPool) -> None:
    source = replace(CINEMA, limits=replace(SMALL, max_cpu_s=1))
    began = time.monotonic()
    reply = await ask(pool, "SELECT printf('%.*c', 1000000000, 'x')", source)
    assert reply.outcome == "refused"
    assert "too long" in reply.text
    assert time.monotonic() - began < SMALL.max_wall_s
    assert (await ask(pool, "SELECT 1")).outcome == "shown"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT zeroblob(1000000000)",
        "SELECT hex(zeroblob(90000))",
        "SELECT GROUP_CONCAT(a.title || b.title) FROM films a, films b",
        "SELECT replace(hex(zeroblob(40000)), '0', 'abcdefgh')",
    ],
)
async def test_giant_values_are_refused(pool: GuardPool, sql: str) -> None:
    reply = await ask(pool, sql)
    assert reply.outcome == "refused"
    assert "too big" in reply.text


async def test_memory_is_capped_and_the_next_query_runs(pool: GuardPool) -> None:
    hog = (
        "WITH RECURSIVE c(x, s) AS (SELECT 1, hex(zeroblob(40000)) UNION ALL "
        "SELECT x + 1, s FROM c) SELECT COUNT(DISTINCT s || x) FROM c"
    )
    source = replace(CINEMA, limits=replace(SMALL, max_memory_bytes=120 << 20))
    reply = await ask(pool, hog, source)
    assert reply == Reply("refused", "The query was stopped: it needed too much memory.")
    assert (await ask(pool, "SELECT 1")).outcome == "shown"


async def test_shown_rows_cells_and_text_are_capped(pool: GuardPool) -> None:
    rows = (await ask(pool, "SELECT screening_id FROM screenings")).text.split("\n")
    assert rows[0] == "screening_id"
    assert rows[1:-1] == [str(i + 1) for i in range(MAX_SHOWN_ROWS)]
    assert rows[-1] == "(the first 20 rows; there are more)"
    wide = (await ask(pool, "SELECT hex(zeroblob(20000)), *, * FROM screenings, films")).text
    assert len(wide) < MAX_SHOWN_CHARS + 1_000
    many = "SELECT " + ", ".join(f"{i} AS a_rather_long_name_{i}" for i in range(500))
    assert len((await ask(pool, many)).text) <= MAX_SHOWN_CHARS + 1


async def test_result_without_rows_says_so(pool: GuardPool) -> None:
    assert (await ask(pool, "SELECT title FROM films WHERE 0")).text == "title\n(no rows)"


async def test_line_breaks_and_blobs_stay_in_their_line(pool: GuardPool) -> None:
    reply = await ask(pool, "SELECT 'a' || char(10) || 'b' AS x, x'00ff' AS y, 1e400 AS z")
    assert reply.text == "x | y | z\na\\nb | x'00ff' | inf\n(1 row)"
