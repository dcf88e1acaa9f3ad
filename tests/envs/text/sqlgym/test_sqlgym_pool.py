"""Guard processes come, go, break and are cancelled."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from practicum.core.errors import EnvError, MachineError
from practicum.envs.text.sqlgym.databases import GeneratedDatabases
from practicum.envs.text.sqlgym.pool import GuardPool, Request
from practicum.envs.text.sqlgym.sandbox import SMALL

CINEMA = GeneratedDatabases().find("cinema").source
ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT COUNT(*) FROM c"
ONE = Request(CINEMA, "SELECT 1")
PATIENT = replace(CINEMA, limits=replace(SMALL, max_steps=10**12, max_cpu_s=30))


@pytest_asyncio.fixture
async def pool() -> AsyncIterator[GuardPool]:
    made = GuardPool(2)
    yield made
    await made.aclose()


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def until(condition: object, timeout_s: float = 10.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, "waited in vain"
        await asyncio.sleep(0.02)


async def test_slow_query_blocks_neither_the_loop_nor_other_queries(pool: GuardPool) -> None:
    slow = asyncio.create_task(pool.ask(Request(PATIENT, ENDLESS)))
    await until(pool.pids)
    replies = [await asyncio.wait_for(pool.ask(ONE), 30) for _ in range(5)]
    assert {reply.outcome for reply in replies} == {"shown"}
    assert not slow.done()
    slow.cancel()
    await asyncio.gather(slow, return_exceptions=True)


async def test_cancelling_a_query_ends_its_process(pool: GuardPool) -> None:
    slow = asyncio.create_task(pool.ask(Request(PATIENT, ENDLESS)))
    await until(pool.pids)
    (pid,) = pool.pids()
    slow.cancel()
    with pytest.raises(asyncio.CancelledError):
        await slow
    await until(lambda: not is_running(pid))
    assert (await pool.ask(ONE)).outcome == "shown"


async def test_queries_that_wait_can_be_cancelled(pool: GuardPool) -> None:
    waiting = [asyncio.create_task(pool.ask(Request(PATIENT, ENDLESS))) for _ in range(6)]
    await until(lambda: len(pool.pids()) == 2)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert (await asyncio.wait_for(pool.ask(ONE), 30)).outcome == "shown"
    assert len(pool.pids()) <= 2


async def test_closing_ends_every_process_and_can_be_repeated() -> None:
    pool = GuardPool(2)
    await asyncio.gather(*(pool.ask(ONE) for _ in range(8)))
    pids = pool.pids()
    assert 1 <= len(pids) <= 2
    await pool.aclose()
    await pool.aclose()
    assert not any(map(is_running, pids))


async def test_closed_pool_starts_again_when_asked(pool: GuardPool) -> None:
    await pool.aclose()
    assert (await pool.ask(ONE)).outcome == "shown"


async def test_forgotten_pool_ends_its_processes() -> None:
    pool = GuardPool(1)
    await pool.ask(ONE)
    (pid,) = pool.pids()
    del pool
    gc.collect()
    assert not is_running(pid)


async def test_guards_are_reused(pool: GuardPool) -> None:
    for _ in range(20):
        await pool.ask(ONE)
    assert len(pool.pids()) == 1


async def test_guard_that_dies_between_queries_is_replaced(pool: GuardPool) -> None:
    await pool.ask(ONE)
    (pid,) = pool.pids()
    os.kill(pid, signal.SIGKILL)
    await until(lambda: pid not in pool.pids())
    assert (await pool.ask(ONE)).outcome == "shown"


async def test_guard_that_dies_during_a_query_is_a_fault_of_the_machine(pool: GuardPool) -> None:
    slow = asyncio.create_task(pool.ask(Request(PATIENT, ENDLESS)))
    await until(pool.pids)
    os.kill(pool.pids()[0], signal.SIGKILL)
    with pytest.raises(MachineError) as error:
        await slow
    assert error.value.kind == "crash"
    assert (await pool.ask(ONE)).outcome == "shown"


async def test_machine_too_busy_to_answer_is_a_fault_and_not_a_wrong_answer(
    pool: GuardPool,
) -> None:
    hurried = replace(PATIENT, limits=replace(PATIENT.limits, max_wall_s=0.3))
    with pytest.raises(MachineError) as error:
        await pool.ask(Request(hurried, ENDLESS))
    assert error.value.kind == "timeout"


async def test_broken_gold_query_is_a_fault_of_ours(pool: GuardPool) -> None:
    with pytest.raises(EnvError) as error:
        await pool.ask(Request(CINEMA, "SELECT 1", gold="SELECT nonsense"))
    assert error.value.kind == "gold"


async def test_damaged_database_is_a_fault_of_ours(pool: GuardPool, tmp_path: Path) -> None:
    path = tmp_path / "damaged.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (x)")
        connection.executemany("INSERT INTO t VALUES (?)", [("y" * 2_000,)] * 50)
    connection.close()
    content = bytearray(path.read_bytes())
    content[4_096 * 2 :] = b"\xff" * (len(content) - 4_096 * 2)
    path.write_bytes(content)
    source = replace(CINEMA, key="damaged", tables=("t",), image=None, path=str(path))
    with pytest.raises(EnvError) as error:
        await pool.ask(Request(source, "SELECT SUM(LENGTH(x)) FROM t"))
    assert error.value.kind == "database"


async def test_one_pool_serves_several_event_loops(pool: GuardPool) -> None:
    async def ask() -> str:
        return (await pool.ask(ONE)).outcome

    assert await asyncio.to_thread(asyncio.run, ask()) == "shown"
    assert await asyncio.to_thread(asyncio.run, ask()) == "shown"


def test_forked_process_uses_guards_of_its_own() -> None:
    code = """
import asyncio, os
from practicum.envs.text.sqlgym.databases import GeneratedDatabases
from practicum.envs.text.sqlgym.pool import GuardPool, Request

pool = GuardPool(1)
request = Request(GeneratedDatabases().find("cinema").source, "SELECT 1")

async def ask():
    await pool.ask(request)
    return pool.pids()

parents = asyncio.run(ask())
child = os.fork()
if child == 0:
    own = asyncio.run(ask())
    asyncio.run(pool.aclose())
    os._exit(0 if own and not set(own) & set(parents) else 1)
_, status = os.waitpid(child, 0)
assert status == 0
assert asyncio.run(ask()) == parents
asyncio.run(pool.aclose())
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=60)


def test_process_that_dies_leaves_no_guard_behind() -> None:
    code = """
import asyncio, os
from practicum.envs.text.sqlgym.databases import GeneratedDatabases
from practicum.envs.text.sqlgym.pool import GuardPool, Request

pool = GuardPool(1)
asyncio.run(pool.ask(Request(GeneratedDatabases().find("cinema").source, "SELECT 1")))
print(pool.pids()[0], flush=True)
os.kill(os.getpid(), 9)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, timeout=60
    )
    pid = int(done.stdout)
    deadline = time.monotonic() + 10
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_running(pid) or _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


async def test_a_result_that_is_cut_short_leaves_no_complaint_behind(pool: GuardPool) -> None:
    """Complaints once filled the guard's error pipe, and the guard hung for ever."""
    first, second = CINEMA.tables[:2]
    long_result = Request(CINEMA, f"SELECT 1 FROM {first} a, {first} b, {second} c")
    for _ in range(20):
        assert "there are more" in (await pool.ask(long_result)).text
    assert pool._crew is not None
    for guard in pool._crew._guards:
        stderr = guard._process.stderr
        assert stderr is not None
        os.set_blocking(stderr.fileno(), False)
        assert stderr.read() is None
