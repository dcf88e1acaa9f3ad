"""Trainings side by side on one GPU, each after the one whose weights it begins with."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SMALL = {
    "sft": ("max_updates=2",),
    "rl": ("num_updates=2", "groups.per_update=2", "groups.max_per_update=2", "groups.size=2"),
    "eval": ("max_tasks=4", "limits.max_turns=4", "sampling.max_tokens=16"),
    "both": (
        "sampler.slots=8",
        "sampling.max_tokens=16",
        "evaluate.max_tasks=4",
        "evaluate.max_turns=4",
    ),
}
"""What makes a training a check of the whole thing, on a CPU."""


@dataclass(frozen=True)
class Job:
    """One training, or one more evaluation of what it made."""

    name: str
    kind: str
    config: str
    settings: tuple[str, ...]
    start: str = ""
    """Whose weights it begins with; unset: the pretrained ones."""
    repeats: str = ""
    """Whose games it learns from, again and again,"""
    repeat_s: float = 0.0
    """for so many seconds, by what one pass over them took the other."""

    def needs(self) -> set[str]:
        """Who must be through before."""
        return {name for name in (self.start, self.repeats) if name}


@dataclass
class Runner:
    """Runs trainings side by side, each after the one it begins with."""

    model: Path
    out: Path
    at_once: int
    stop_after_s: float
    is_tiny: bool

    def __post_init__(self) -> None:
        self._begin = time.monotonic()

    async def run_all(self, jobs: Sequence[Job]) -> None:
        """Whenever there is room, the first one starts that has all it needs."""
        pending = [job for job in jobs if not self.finished(job.name)]
        running: dict[asyncio.Task[None], str] = {}
        while pending or running:
            unsettled = {job.name for job in pending} | set(running.values())
            ready = [job for job in pending if unsettled.isdisjoint(job.needs())]
            for job in ready[: self.at_once - len(running)]:
                pending.remove(job)
                running[asyncio.create_task(self._run(job))] = job.name
            done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                running.pop(task)
                task.result()

    async def _run(self, job: Job) -> None:
        self._say(f"{job.name}: {await self._train(job)}")

    async def _train(self, job: Job) -> str:
        if missing := sorted(name for name in job.needs() if not self.finished(name)):
            return f"left out, there is no {missing[0]}"
        if time.monotonic() - self._begin > self.stop_after_s:
            return "left out, the time is up"
        if (self.out / job.name / "config.json").exists():  # a run that was cut off begins anew
            shutil.rmtree(self.out / job.name)
        with (self.out / f"{job.name}.log").open("w") as log:
            process = await asyncio.create_subprocess_exec(
                *self._command(job), stdout=asyncio.subprocess.DEVNULL, stderr=log
            )
            status = await process.wait()
        last = (self.out / f"{job.name}.log").read_text().strip().splitlines()[-1:]
        return f"exit {status}: {''.join(last)}"

    def _command(self, job: Job) -> list[str]:
        program = [sys.executable, "-m", "practicum", job.kind]
        out = ["--out", str(self.out / job.name), "--json"]
        weights = self.out / job.start / "checkpoints" / "latest" if job.start else self.model
        if job.kind == "eval":
            asked = ["--panel", job.config, "--policy", f"hf:{weights}"]
            settings = [*job.settings, "limits.max_repeated_refusals=5"]
            settings += SMALL["eval"] if self.is_tiny else ["sampling.max_tokens=192"]
            return [*program, "textcraft", *asked, *settings, *out]
        settings = [f"model.path={weights}", *job.settings]
        if job.repeats:
            epochs = round(job.repeat_s / self._updates_s(job.repeats))
            settings.append(f"epochs={max(1, epochs)}")
        if self.is_tiny:
            is_sft_alone = job.kind == "sft" and "joint" not in job.name
            settings += ["demonstrations.max_tasks=8"] * is_sft_alone
            settings += [*SMALL[job.kind], *SMALL["both"]]
        return [*program, f"configs/{job.config}.yaml", *settings, *out]

    def _updates_s(self, name: str) -> float:
        report = json.loads((self.out / name / "report.json").read_text())
        return float(report["timings_s"]["updates"])

    def finished(self, name: str) -> bool:
        return (self.out / name / "report.json").exists()

    def _say(self, text: str) -> None:
        print(f"[{time.monotonic() - self._begin:.0f} s] {text}", file=sys.stderr, flush=True)
