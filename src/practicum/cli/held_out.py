"""Held-out evaluation of a model in training: each environment by itself, and all together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from practicum.config.eval import EvalConfig
from practicum.config.mixture import PartConfig
from practicum.config.train import TrainingConfig
from practicum.core.env import Environment
from practicum.core.task import Task
from practicum.evaluate.compare import compare_pooled, pooled_success
from practicum.evaluate.runner import (
    Evaluation,
    prepare,
    resume_run,
    run_evaluation,
    start_run,
)
from practicum.policies.local.policy import HfPolicy
from practicum.rollout.play import Slots
from practicum.store.run import Run
from practicum.train.checkpoint import MANIFEST_FILE

Json = dict[str, Any]


@dataclass
class World:
    """One environment of a training, open, with the tasks that are trained on."""

    name: str
    part: PartConfig
    environment: Environment
    tasks: Sequence[Task]


@dataclass(frozen=True)
class HeldOut:
    """Where the evaluations of a run lie: `evals/update-N`, one folder below it per environment
    where there are several."""

    config: TrainingConfig
    run: Path
    worlds: Sequence[World]

    async def evaluate(self, policy: HfPolicy, update: int) -> dict[str, Json]:
        """The reports after so many updates, by environment; what is on record is kept."""
        evaluations = {w.name: prepare(self._wanted(w), policy, w.environment) for w in self.worlds}
        runs = {name: _open(e, self.path(update, name)) for name, e in evaluations.items()}
        slots = Slots(self.config.sampler.slots)
        async with asyncio.TaskGroup() as group:
            jobs = {
                name: group.create_task(run_evaluation(e, runs[name], lambda _: None, slots))
                for name, e in evaluations.items()
            }
        return {name: job.result() for name, job in jobs.items()}

    def path(self, update: int, name: str) -> Path:
        """The run folder of an environment's evaluation."""
        path = self.run / "evals" / f"update-{update:06d}"
        return path if len(self.worlds) == 1 else path / name

    def together(self, reports: dict[str, Json], update: int) -> Json:
        """One report for all: every task of every environment counts once."""
        if len(reports) == 1:
            return next(iter(reports.values()))
        overlaps = [report["overlap"] for report in reports.values()]
        return {
            "success": pooled_success([self.path(update, name) for name in reports]),
            "panel": ", ".join(f"{name}/{report['panel']}" for name, report in reports.items()),
            "overlap": {
                "checked_against": overlaps[0]["checked_against"],
                "tasks": sum(overlap["tasks"] for overlap in overlaps),
                "families": sum(overlap["families"] for overlap in overlaps),
            },
        }

    def compare(self, update: int, *names: str) -> Json:
        """Before against after so many updates, paired by task, of these environments."""
        return compare_pooled([(self.path(0, name), self.path(update, name)) for name in names])

    def _wanted(self, world: World) -> EvalConfig:
        config, held_out, part = self.config, self.config.evaluate, world.part
        assert held_out is not None
        own = part.evaluate
        return EvalConfig(
            env=part.env,
            options=part.options,
            policy=f"hf:{config.model.path}",
            panel=own.panel or held_out.panel,
            samples=own.samples or held_out.samples,
            seed=held_out.seed,
            format=config.format,
            concurrency=config.sampler.slots,
            max_tasks=own.max_tasks or held_out.max_tasks,
            trained_on=str(self.run / MANIFEST_FILE),
            sampling=config.sampling.model_copy(update={"temperature": held_out.temperature}),
            limits=(part.limits or config.limits).model_copy(
                update={
                    "max_turns": own.max_turns or held_out.max_turns,
                    "max_repeated_refusals": held_out.max_repeated_refusals,
                }
            ),
        )


def _open(evaluation: Evaluation, path: Path) -> Run:
    return resume_run(evaluation, path) if path.exists() else start_run(evaluation, path)


def summarise_parts(
    before: dict[str, Json] | None, after: dict[str, Json] | None, held_out: HeldOut, update: int
) -> dict[str, Json]:
    """What a report says of each environment."""
    return {
        world.name: {
            "env": world.part.env,
            "before": before[world.name]["success"] if before else None,
            "after": after[world.name]["success"] if after else None,
            "paired": held_out.compare(update, world.name) if before and after else None,
            "panel": after[world.name]["panel"] if after else None,
            "overlap": after[world.name]["overlap"] if after else None,
        }
        for world in held_out.worlds
    }


def success_metrics(report: Json, prefix: str = "") -> dict[str, float]:
    """A report's success as metrics; nothing where nothing was judged."""
    success = report["success"]
    if success["mean"] is None:
        return {}
    names = (("success", "mean"), ("low", "low"), ("high", "high"))
    return {f"{prefix}eval/{name}": success[key] for name, key in names}


def runs_of(evaluation: Path) -> list[Path]:
    """The run folders of an evaluation: itself, or one for each environment."""
    if (evaluation / "config.json").exists():
        return [evaluation]
    return sorted(path for path in evaluation.iterdir() if (path / "config.json").exists())
