"""What a step of an environment costs: in-process, over our HTTP and over our WebSocket.

    python benchmarks/envs.py [ENV ...] [--seconds S] [--json]

CPU time of client and server together (children such as JVMs included), per step, with
sixteen episodes under way; opening and starting them is not counted. Beside it stand the
figures of AgentGym's servers, measured on a machine of the same kind. Then, for TextCraft,
requests per second and latency at 32 and 256 sessions. Absolute times say little about
other machines; the ratios are what counts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from practicum.core.env import Env, Environment
from practicum.core.errors import PracticumError
from practicum.core.message import Action
from practicum.core.task import Task
from practicum.envs import registry
from practicum.envs.contract import transcript
from practicum.envs.http.app import DialectName
from practicum.envs.http.remote import create

AGENTGYM_MS = {"textcraft": 3.73, "babyai": 6.7, "sciworld": 300.0}
"""Client and server for TextCraft; the server alone is 1.7 there, and the others' figures."""
GOALS = {"in-process": {"textcraft": 100, "sciworld": 20}, "wire": {"textcraft": 5}}
WARM_UP_S = {"sciworld": 30.0}
"""Played before the clock starts: a JVM takes half a minute to get fast, and then stays up."""
TRANSPORTS: tuple[tuple[str, DialectName], ...] = (("http", "agentgym"), ("websocket", "native"))

SERVE = """
import sys
from practicum.envs.http.server import serve
serve([sys.argv[1]], dialect=sys.argv[2], on_ready=lambda url: print(url, flush=True))
"""
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU time per step over one transport."""

    env: str
    transport: str
    steps: int
    cpu_ms: float
    agentgym_ms: float | None

    @property
    def ratio(self) -> float | None:
        """How many times cheaper than AgentGym's."""
        return self.agentgym_ms / self.cpu_ms if self.agentgym_ms else None


@dataclass(frozen=True, slots=True)
class Load:
    """Throughput and latency with many sessions."""

    transport: str
    sessions: int
    requests_per_s: float
    p50_ms: float
    p99_ms: float
    errors: int


def family() -> list[int]:
    """All processes below this one: servers, JVMs."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parents[int(folder.name)] = int(_stat(int(folder.name))[1])
    members = {os.getpid()}
    while found := {pid for pid, parent in parents.items() if parent in members} - members:
        members |= found
    return sorted(members - {os.getpid()})


def spent_s(pids: list[int]) -> float:
    """CPU time of some processes."""
    ticks = 0
    for pid in pids:
        with suppress(OSError):  # a pool's process may have been replaced
            ticks += sum(map(int, _stat(pid)[11:13]))
    return ticks / TICKS_PER_S


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


@asynccontextmanager
async def served(env_id: str, dialect: DialectName) -> AsyncIterator[str]:
    """Serve an environment in another process."""
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE, env_id, dialect], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        url = (await asyncio.to_thread(process.stdout.readline)).strip()
        yield url
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait)
        process.stdout.close()


async def plans(environment: Environment, count: int) -> list[tuple[Task, list[str]]]:
    """Tasks of the dev panel with what the expert and a random player do there."""
    tasks = environment.panel("dev").tasks
    chosen = tasks[:: max(1, len(tasks) // count)][:count]
    found = []
    for number, task in enumerate(chosen):
        script = environment.scripts["random" if number % 2 else "expert"]
        turns, _ = await transcript(environment, task, script)
        found.append((task, [turn.action.text for turn in turns if turn.action]))
    return found


async def measure(
    environment: Environment,
    played: list[tuple[Task, list[str]]],
    seconds: float,
    warm_up_s: float,
) -> tuple[int, float]:
    """Play the plans again and again; count steps and the CPU time spent stepping."""

    async def steps(env: Env, actions: list[str]) -> None:
        for action in actions:
            await env.step(Action(action))

    async def play_all(below: list[int]) -> float:
        async with AsyncExitStack() as stack:
            envs = [await stack.enter_async_context(environment.open(task)) for task, _ in played]
            for env in envs:
                await env.start()
            below_s, here_s = spent_s(below), time.process_time()
            await asyncio.gather(
                *(steps(env, actions) for env, (_, actions) in zip(envs, played, strict=True))
            )
            return time.process_time() - here_s + spent_s(below) - below_s

    warm_s = time.monotonic() + warm_up_s
    await play_all([])  # indices are built and connections made on first use
    while time.monotonic() < warm_s:
        await play_all([])
    below, num_rounds, total_s = family(), 0, 0.0
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s or num_rounds == 0:
        total_s += await play_all(below)
        num_rounds += 1
    return num_rounds * sum(len(actions) for _, actions in played), total_s


async def costs(env_id: str, seconds: float) -> list[Cost]:
    """Measure one environment over all transports."""
    environment = registry.load_env(env_id)
    played = await plans(environment, 16)
    theirs, warm_up_s = AGENTGYM_MS.get(env_id), WARM_UP_S.get(env_id, 0.0)
    found = []

    async def add(name: str, measured: Awaitable[tuple[int, float]]) -> None:
        num_steps, total_s = await measured
        found.append(Cost(env_id, name, num_steps, 1000 * total_s / num_steps, theirs))

    await add("in-process", measure(environment, played, seconds, warm_up_s))
    await environment.aclose()
    for name, dialect in TRANSPORTS:
        async with served(env_id, dialect) as url:
            remote = create(url, env_id)
            await add(name, measure(remote, played, seconds, warm_up_s))
            await remote.aclose()
    return found


async def load(name: str, dialect: DialectName, num_sessions: int, seconds: float) -> Load:
    """Step many TextCraft sessions at once."""
    latencies: list[float] = []
    num_errors = 0
    async with served("textcraft", dialect) as url:
        remote = create(url, "textcraft")
        tasks = remote.panel("all").tasks[:num_sessions]
        ready = asyncio.Barrier(num_sessions)
        started_s = 0.0

        async def play(task: Task) -> None:
            nonlocal num_errors, started_s
            try:
                async with remote.open(task) as env:
                    await env.start()
                    await ready.wait()
                    started_s = started_s or time.perf_counter()
                    while time.perf_counter() < started_s + seconds:
                        sent_s = time.perf_counter()
                        await env.step(Action("inventory"))
                        latencies.append(time.perf_counter() - sent_s)
            except PracticumError:
                num_errors += 1

        await asyncio.gather(*map(play, tasks))
        took_s = time.perf_counter() - started_s
        await remote.aclose()
    latencies.sort()
    p50, p99 = (1000 * latencies[int(len(latencies) * q)] for q in (0.5, 0.99))
    return Load(name, num_sessions, len(latencies) / took_s, p50, p99, num_errors)


def show(all_costs: list[Cost], loads: list[Load]) -> None:
    print("| environment | transport | steps | CPU ms/step | AgentGym | times cheaper | goal |")
    print("|---|---|---|---|---|---|---|")
    for cost in all_costs:
        theirs = f"{cost.agentgym_ms:g}" if cost.agentgym_ms else "–"
        ratio = f"{cost.ratio:.0f}x" if cost.ratio else "–"
        kind = "in-process" if cost.transport == "in-process" else "wire"
        goal = GOALS[kind].get(cost.env)
        met = "–" if goal is None else f"{goal}x {'met' if (cost.ratio or 0) >= goal else 'MISSED'}"
        print(
            f"| {cost.env} | {cost.transport} | {cost.steps} | {cost.cpu_ms:.4f} | {theirs} "
            f"| {ratio} | {met} |"
        )
    print("\n| transport | sessions | requests/s | p50 ms | p99 ms | errors |")
    print("|---|---|---|---|---|---|")
    for row in loads:
        print(
            f"| {row.transport} | {row.sessions} | {row.requests_per_s:.0f} | {row.p50_ms:.1f} "
            f"| {row.p99_ms:.1f} | {row.errors} |"
        )


async def run(env_ids: list[str], seconds: float, as_json: bool) -> int:
    all_costs: list[Cost] = []
    broken: dict[str, str] = {}
    for env_id in env_ids:
        try:
            all_costs += await costs(env_id, seconds)
        except PracticumError as error:
            broken[env_id] = str(error)
    loads = [
        await load(name, dialect, num_sessions, seconds)
        for name, dialect in TRANSPORTS
        for num_sessions in (32, 256)
    ]
    if as_json:
        rows = {"costs": [*map(asdict, all_costs)], "loads": [*map(asdict, loads)]}
        print(json.dumps({**rows, "broken": broken}))
    else:
        show(all_costs, loads)
        for env_id, message in broken.items():
            print(f"\n{env_id} was not measured: {message}")
    return 1 if broken else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("envs", nargs="*", help="default: all that are installed")
    parser.add_argument("--seconds", type=float, default=3.0, help="for each measurement")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    # A script's own folder comes first on the path, and here it holds a `textcraft.py`.
    sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != Path(__file__).parent]
    installed = [e for e, entry in registry.entries().items() if not entry.missing()]
    return asyncio.run(run(given.envs or installed, given.seconds, given.json))


if __name__ == "__main__":
    sys.exit(main())
