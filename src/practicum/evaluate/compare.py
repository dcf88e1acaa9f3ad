"""Compares two runs on the tasks they share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from practicum.core.errors import ConfigError
from practicum.evaluate.report import latest, tally_tasks
from practicum.evaluate.statistics import Tally, compare_paired
from practicum.store.run import Run

Json = dict[str, Any]


def compare_runs(first: Path, second: Path, *, allow_other_contract: bool = False) -> Json:
    """Compare success, second minus first, paired by task.

    Runs under different contracts measure different things: they are refused unless the
    user insists, and the result says so.
    """
    run_a, run_b = Run.open(first), Run.open(second)
    differing = _differing_parts(run_a, run_b)
    if differing and not allow_other_contract:
        raise ConfigError(
            f"{first} and {second} were measured under different contracts "
            f"({', '.join(differing)} differ); --allow-other-contract compares them all the same"
        )
    tallies_a, tallies_b = _tallies(run_a), _tallies(run_b)
    common = [task_id for task_id in tallies_a if task_id in tallies_b]
    if not common:
        raise ConfigError(f"{first} and {second} have no judged task in common")
    comparison = compare_paired(
        [tallies_a[task_id] for task_id in common], [tallies_b[task_id] for task_id in common]
    )
    return {
        "tasks": comparison.num_tasks,
        "difference": comparison.difference.to_json(),
        "p_value": comparison.p_value,
        "test": comparison.test,
        "minimum_detectable": comparison.minimum_detectable,
        "contract_equal": not differing,
        "contract_differs_in": differing,
        "better": comparison.num_better,
        "worse": comparison.num_worse,
        "left_out": len(tallies_a) + len(tallies_b) - 2 * len(common),
        "runs": [str(first), str(second)],
    }


def _differing_parts(run_a: Run, run_b: Run) -> list[str]:
    a, b = run_a.header["contract"], run_b.header["contract"]
    return [name for name in a if name != "hash" and a[name] != b.get(name)]


def _tallies(run: Run) -> dict[str, Tally]:
    return tally_tasks(run.tasks(), latest(run.episodes()).values())
