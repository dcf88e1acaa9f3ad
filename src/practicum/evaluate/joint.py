"""Several environments in one evaluation, sharing the policy's slots, reported one by one.

The folder of a joint evaluation holds one run folder per environment; each is a run like
any other and can be compared, resumed or replayed on its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from practicum.config.base import read_config
from practicum.config.eval import EvalConfig
from practicum.core.episode import Episode
from practicum.core.errors import ConfigError
from practicum.evaluate.runner import (
    Evaluation,
    Json,
    prepare,
    resume_run,
    run_evaluation,
    start_run,
)
from practicum.rollout.play import Slots
from practicum.store.run import Run

JOINT = "joint-eval"
"""The kind of run that only holds others."""


def env_ids(config: EvalConfig) -> list[str]:
    """The environments an evaluation asks for: `textcraft` or `textcraft,webshop`."""
    ids = [part.strip() for part in config.env.split(",") if part.strip()]
    if len(set(ids)) != len(ids):
        raise ConfigError(f"env {config.env!r} names an environment twice")
    return ids


def prepare_all(config: EvalConfig) -> list[Evaluation]:
    """Make every environment's evaluation ready; in a joint one, options go by environment."""
    ids = env_ids(config)
    if len(ids) < 2:
        return [prepare(config)]
    strangers = sorted(set(config.options) - set(ids))
    if strangers:
        raise ConfigError(
            f"options.{strangers[0]}: with several environments an option is given under its "
            f"environment, as in options.{ids[0]}.NAME=VALUE"
        )
    return [prepare(_config_for(config, env_id)) for env_id in ids]


def start_all(config: EvalConfig, evaluations: list[Evaluation], path: Path) -> list[Run]:
    """Make the run folder, and in a joint evaluation one below it per environment."""
    if len(evaluations) == 1:
        return [start_run(evaluations[0], path)]
    Run.create(path, JOINT, {"config": config.model_dump(mode="json")}, ())
    return [start_run(e, path / e.config.env) for e in evaluations]


def resume_all(evaluations: list[Evaluation], path: Path) -> list[Run]:
    """Open what is there; a part of a joint evaluation that never started is started."""
    if len(evaluations) == 1:
        return [resume_run(evaluations[0], path)]
    return [
        resume_run(e, folder) if (folder := path / e.config.env).exists() else start_run(e, folder)
        for e in evaluations
    ]


async def run_all(
    evaluations: list[Evaluation], runs: list[Run], on_episode: Callable[[Episode], None]
) -> Json:
    """Play everything; return the report, or for several environments one of reports."""
    slots = Slots(evaluations[0].config.concurrency)
    async with asyncio.TaskGroup() as group:
        jobs = [
            group.create_task(run_evaluation(evaluation, run, on_episode, slots))
            for evaluation, run in zip(evaluations, runs, strict=True)
        ]
    reports = [job.result() for job in jobs]
    if len(reports) == 1:
        return reports[0]
    report: dict[str, Any] = {
        "envs": [e.config.env for e in evaluations],
        "policy": evaluations[0].config.policy,
        "episodes": sum(report["episodes"] for report in reports),
        "by_env": {e.config.env: r for e, r in zip(evaluations, reports, strict=True)},
        "run": ".",
    }
    Run.open(runs[0].path.parent).write_report(report)
    return report


def _config_for(config: EvalConfig, env_id: str) -> EvalConfig:
    values = config.model_dump(mode="json")
    return read_config(
        EvalConfig, values={**values, "env": env_id, "options": config.options.get(env_id, {})}
    )
