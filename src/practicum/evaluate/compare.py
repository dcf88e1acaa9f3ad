"""Compares two runs on the tasks they share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from practicum.core.errors import ConfigError
from practicum.evaluate.report import latest, tally_tasks
from practicum.evaluate.statistics import Tally, compare_paired, estimate_success
from practicum.store.run import Run

Json = dict[str, Any]


def compare_runs(first: Path, second: Path, *, allow_other_contract: bool = False) -> Json:
    """Compare success, second minus first, paired by task.

    Runs under different contracts measure different things: they are refused unless the
    user insists, and the result says so.
    """
    compared = compare_pooled([(first, second)], allow_other_contract=allow_other_contract)
    return {**compared, "runs": [str(first), str(second)]}


def compare_pooled(
    pairs: Sequence[tuple[Path, Path]], *, allow_other_contract: bool = False
) -> Json:
    """Compare several pairs of runs as one: every task of every pair counts once."""
    tallies_a: dict[tuple[int, str], Tally] = {}
    tallies_b: dict[tuple[int, str], Tally] = {}
    differing: list[str] = []
    for number, (first, second) in enumerate(pairs):
        run_a, run_b = Run.open(first), Run.open(second)
        differing += (parts := _differing_parts(run_a, run_b))
        if parts and not allow_other_contract:
            raise ConfigError(
                f"{first} and {second} were measured under different contracts "
                f"({', '.join(parts)} differ); --allow-other-contract compares them all the same"
            )
        tallies_a |= {(number, task): tally for task, tally in _tallies(run_a).items()}
        tallies_b |= {(number, task): tally for task, tally in _tallies(run_b).items()}
        if not any(at == number and (at, task) in tallies_b for at, task in tallies_a):
            raise ConfigError(f"{first} and {second} have no judged task in common")
    common = [key for key in tallies_a if key in tallies_b]
    comparison = compare_paired(
        [tallies_a[key] for key in common], [tallies_b[key] for key in common]
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
    }


def pooled_success(paths: Sequence[Path]) -> Json:
    """Success over all tasks of several runs."""
    tallies = [tally for path in paths for tally in _tallies(Run.open(path)).values()]
    estimate = estimate_success(tallies)
    return estimate.to_json() if estimate else {"mean": None, "low": None, "high": None}


def _differing_parts(run_a: Run, run_b: Run) -> list[str]:
    a, b = run_a.header["contract"], run_b.header["contract"]
    return [name for name in a if name != "hash" and a[name] != b.get(name)]


def _tallies(run: Run) -> dict[str, Tally]:
    return tally_tasks(run.tasks(), latest(run.episodes()).values())
