"""`practicum check`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from practicum.cli.output import JsonFlag, console, print_json
from practicum.core.errors import ConfigError

if TYPE_CHECKING:
    from practicum.envs.contract import CheckResult


def check(
    env: Annotated[
        str, typer.Argument(help="An id, or your own: module:function or file.py:function.")
    ],
    json: JsonFlag = False,
) -> int:
    """Check that an environment keeps its promises; exit code 1 if it does not."""
    if Path(env).suffix in {".yaml", ".yml", ".json"}:
        raise ConfigError(f"{env}: no environment of this version reads task files")
    results = asyncio.run(_check(env))
    if json:
        print_json(
            [{"check": r.name, "kept": r.is_kept, "detail": r.detail} for r in results],
        )
    else:
        out = console()
        for result in results:
            mark = "[green]kept[/]  " if result.is_kept else "[red]broken[/]"
            out.print(f"{mark}  {result.name}: ", end="")
            out.print(result.detail, markup=False)
    return 0 if all(result.is_kept for result in results) else 1


async def _check(env: str) -> list[CheckResult]:
    from practicum.envs import contract, registry

    environment = registry.load_env(env)
    try:
        return await contract.check_env(environment)
    finally:
        await environment.aclose()
