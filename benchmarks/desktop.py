"""What a real desktop costs: to bring up, to reset, to act on, to look at, to keep.

    python benchmarks/desktop.py [--body xvfb|namespace] [--side-by-side 1 8 32] [--json]

Beside it stand OSWorld's figures, measured with its own server on a desktop of the same kind, and
the memory of its virtual machine. Then some desktops at once, each with a text editor open: a
step is a click, a key, and a JPEG of the screen. Times are wall times, so the load is printed, and
beside them stands the processor time that was used, which says more where others are at work too:
for `ready` and `reset` that of all processes of the desktop from start to end, else our own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import resource
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from practicum.desktops.apps import EDITOR
from practicum.desktops.computer import Key, Move, Press, Screen
from practicum.desktops.local import LocalComputer
from practicum.desktops.xvfb import DesktopOptions, NamespaceMachine, XvfbMachine

FULL, SMALL = Screen(1920, 1080), Screen(1280, 720)
BODIES = {"xvfb": XvfbMachine, "namespace": NamespaceMachine}
OSWORLD = {
    "action": "640 ms",
    "frame as PNG": "150-270 ms",
    "memory": "4 GB virtual machine",
    "accessibility, editor": "1.2 s",
}
"""Of its server and its virtual machine."""


@dataclass(frozen=True, slots=True)
class Row:
    """One measured thing."""

    name: str
    p50: float
    p95: float
    unit: str
    cpu: float | None = None
    """Processor time per call, in the same unit."""
    goal: float | None = None

    def line(self) -> str:
        """A row of the table."""
        goal = "–"
        if self.goal is not None:
            goal = f"at most {self.goal:g}: {'met' if self.p50 <= self.goal else 'missed'}"
        theirs = OSWORLD.get(self.name, "–")
        cpu = "–" if self.cpu is None else f"{self.cpu:.2f}"
        figures = f"{self.p50:.2f} {self.unit} | {self.p95:.2f} | {cpu}"
        return f"| {self.name} | {figures} | {goal} | {theirs} |"


@dataclass(frozen=True, slots=True)
class Crowd:
    """Some desktops at once."""

    desktops: int
    all_up_s: float
    pss_mb: float
    """Memory per desktop, shared pages divided among their users."""
    steps_per_s: float
    p50_ms: float
    p95_ms: float


@dataclass(slots=True)
class Times:
    """Seconds of each call, and the processor's seconds of all."""

    wall: list[float] = field(default_factory=list)
    cpu_s: float = 0.0


def cpu_s() -> float:
    """Processor time of this process and of all its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


async def times(action: Callable[[], Awaitable[object]], count: int) -> Times:
    taken, before_s = Times(), cpu_s()
    for _ in range(count):
        started = time.perf_counter()
        await action()
        taken.wall.append(time.perf_counter() - started)
    taken.cpu_s = cpu_s() - before_s
    return taken


def row(name: str, taken: Times, unit: str, goal: float | None = None) -> Row:
    scale = 1000 if unit == "ms" else 1
    ordered = sorted(taken.wall)
    p95 = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
    cpu = taken.cpu_s / len(ordered) * scale
    return Row(name, statistics.median(ordered) * scale, p95 * scale, unit, cpu, goal)


def pss_mb(keeper_pid: int) -> float:
    """Memory of a keeper and all that descends from it."""
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(fields[1]), []).append(int(folder.name))
    total, front = 0, [keeper_pid]
    while front:
        pid = front.pop()
        front += parents.get(pid, [])
        try:
            told = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        found = re.search(r"^Pss:\s+(\d+)", told, re.MULTILINE)
        total += int(found[1]) if found else 0
    return total / 1024


def click(n: int) -> list[Move | Press]:
    return [Move(300 + n % 50, 300), Press(), Press(is_down=False)]


async def measure_one(body: str) -> list[Row]:
    machine = BODIES[body](DesktopOptions(screen=FULL))

    ready, before_s = Times(), cpu_s()
    for _ in range(7):
        started = time.perf_counter()
        await machine.start()
        ready.wall.append(time.perf_counter() - started)
        await machine.stop()
    ready.cpu_s = cpu_s() - before_s
    await machine.start()
    try:
        reset = await times(machine.reset, 7)
        memory = pss_mb(machine.keeper_pid)
        computer = machine.computer
        await open_editor(computer)
        count = iter(range(10_000))
        action = await times(lambda: computer.perform(click(next(count))), 300)
        raw = await times(computer.frame, 100)
        jpeg = await times(lambda: computer.screenshot("jpeg"), 60)
        png = await times(computer.screenshot, 30)
        tree = await times(computer.accessibility, 20)
        rows = [
            row("ready", ready, "s", 0.4),
            row("reset", reset, "s", 1.0),
            row("action", action, "ms", 2.0),
            row("frame, raw", raw, "ms", 5.0),
            row("frame as JPEG", jpeg, "ms", 40.0),
            row("frame as PNG", png, "ms"),
            row("accessibility, editor", tree, "s"),
            Row("memory", memory, memory, "MB"),
        ]
    finally:
        await machine.stop()
    if body == "namespace":  # the kernel ends what is inside, and nobody is told what it used
        rows = [replace(one, cpu=None) if one.name in ("ready", "reset") else one for one in rows]
    return rows


async def open_editor(computer: LocalComputer) -> None:
    await computer.launch(EDITOR.argv())
    async with asyncio.timeout(120):
        while not await computer.windows():
            await asyncio.sleep(0.05)
    await computer.settle()


async def measure_crowd(body: str, count: int, num_steps: int) -> Crowd:
    machines = [BODIES[body](DesktopOptions(screen=SMALL)) for _ in range(count)]
    started = time.perf_counter()
    try:
        async with asyncio.TaskGroup() as group:
            for machine in machines:
                group.create_task(machine.start())
        async with asyncio.TaskGroup() as group:
            for machine in machines:
                group.create_task(open_editor(machine.computer))
        all_up_s = time.perf_counter() - started
        memory = sum(pss_mb(machine.keeper_pid) for machine in machines) / count
        taken = Times()

        async def play(computer: LocalComputer) -> None:
            for n in range(num_steps):
                began = time.perf_counter()
                await computer.perform([*click(n), Key("a"), Key("a", False)])
                await computer.screenshot("jpeg")
                taken.wall.append(time.perf_counter() - began)

        began = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for machine in machines:
                group.create_task(play(machine.computer))
        rate = len(taken.wall) / (time.perf_counter() - began)
    finally:
        await asyncio.gather(*(machine.stop() for machine in machines))
    steps = row("step", taken, "ms")
    return Crowd(count, all_up_s, memory, rate, steps.p50, steps.p95)


async def run(body: str, crowds: Sequence[int], as_json: bool) -> None:
    rows = await measure_one(body)
    if not as_json:
        print(f"body {body}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
        print("| 1080p | p50 | p95 | CPU | goal | OSWorld |")
        print("| --- | --- | --- | --- | --- | --- |")
        print("\n".join(one.line() for one in rows), flush=True)
        print("\n| desktops | all up | memory each | steps/s | step p50 | p95 |")
        print("| --- | --- | --- | --- | --- | --- |", flush=True)
    found = []
    for count in crowds:
        crowd = await measure_crowd(body, count, max(6, 60 // count))
        found.append(crowd)
        if not as_json:
            print(
                f"| {count} | {crowd.all_up_s:.1f} s | {crowd.pss_mb:.0f} MB "
                f"| {crowd.steps_per_s:.1f} | {crowd.p50_ms:.0f} ms | {crowd.p95_ms:.0f} ms |",
                flush=True,
            )
    if as_json:
        document = {
            "body": body,
            "load": os.getloadavg()[0],
            "single": [asdict(one) for one in rows],
            "side_by_side": [asdict(crowd) for crowd in found],
        }
        print(json.dumps(document, indent=2))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--body", choices=sorted(BODIES), default="xvfb")
    parser.add_argument("--side-by-side", type=int, nargs="*", default=[1, 8, 32])
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    asyncio.run(run(given.body, given.side_by_side, given.json))
