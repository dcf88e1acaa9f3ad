"""`practicum check`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from practicum.cli.output import JsonFlag, console, print_json

if TYPE_CHECKING:
    from practicum.core.env import Environment
    from practicum.envs.contract import CheckResult

TASK_SUFFIXES = (".yaml", ".yml", ".json")


def check(
    env: Annotated[
        str,
        typer.Argument(
            help="An id, your own (module:function or file.py:function), or desktop tasks: a "
            "YAML or JSON file or a folder of them."
        ),
    ],
    options: Annotated[
        list[str] | None, typer.Argument(help="Options of the environment, as key=value.")
    ] = None,
    json: JsonFlag = False,
) -> int:
    """Check that an environment keeps its promises; exit code 1 if it does not.

    Desktop tasks are played: untouched must score 0, the oracle 1, the likely mistake 0.
    """
    from practicum.config.base import read_overrides

    out = console()

    def show(result: CheckResult) -> None:
        if json:
            return
        mark = "[green]kept[/]  " if result.is_kept else "[red]broken[/]"
        out.print(f"{mark}  {result.name}: ", end="")
        out.print(result.detail, markup=False)

    given = read_overrides(options or [])
    is_tasks = Path(env).is_dir() or Path(env).suffix in TASK_SUFFIXES
    play = _check_tasks(env, given, show) if is_tasks else _check(env, given, show)
    results = asyncio.run(play)
    if json:
        print_json(
            [{"check": r.name, "kept": r.is_kept, "detail": r.detail} for r in results],
        )
    return 0 if all(result.is_kept for result in results) else 1


async def _check(
    env: str, options: dict[str, Any], show: Callable[[CheckResult], None]
) -> list[CheckResult]:
    from practicum.envs import contract, registry

    environment = registry.load_env(env, **options)
    try:
        results = await contract.check_env(environment)
        for result in results:
            show(result)
        if environment.id == "desktop":
            results += await _test_tasks(environment, "all", show)
        return results
    finally:
        await environment.aclose()


async def _check_tasks(
    path: str, options: dict[str, Any], show: Callable[[CheckResult], None]
) -> list[CheckResult]:
    from practicum.envs import registry

    environment = registry.load_env("desktop", tasks_path=path, **options)
    try:
        return await _test_tasks(environment, "test", show)
    finally:
        await environment.aclose()


async def _test_tasks(
    environment: Environment, panel: str, show: Callable[[CheckResult], None]
) -> list[CheckResult]:
    """Play the self-test of desktop tasks."""
    from practicum.envs.contract import CheckResult
    from practicum.envs.desktop.env import Desktop
    from practicum.envs.desktop.selftest import SelfTest, run_self_test

    def told(test: SelfTest) -> CheckResult:
        score = "no score" if test.score is None else f"{test.score:g}"
        said = f"{test.verdict}, {score}, {test.num_turns} turns"
        detail = f"{said}; {test.detail}" if test.detail else said
        return CheckResult(f"{test.task.id} {test.part}", test.is_passed, detail)

    assert isinstance(environment, Desktop)
    tests = await run_self_test(
        environment,
        environment.panel(panel).tasks,
        concurrency=os.cpu_count() or 1,
        on_result=lambda test: show(told(test)),
    )
    return [told(test) for test in tests]
