"""`practicum compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from practicum.cli.output import JsonFlag, console, points, print_json


def compare(
    run_a: Annotated[Path, typer.Argument(help="The run to start from.")],
    run_b: Annotated[Path, typer.Argument(help="The run to compare with it.")],
    allow_other_contract: Annotated[
        bool, typer.Option(help="Compare although panel, prompt, parser or limits differ.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Compare two runs task by task: how much better B is than A."""
    from practicum.evaluate.compare import compare_runs

    result = compare_runs(run_a, run_b, allow_other_contract=allow_other_contract)
    if json:
        print_json(result)
        return
    out = console()
    out.print(f"{run_b} minus {run_a}: ", markup=False, end="")
    out.print(f"[bold]{points(result['difference'])}[/]")
    out.print(
        f"on {result['tasks']} common tasks: better on {result['better']}, worse on "
        f"{result['worse']}; p = {result['p_value']:.2g} ({result['test']})"
    )
    out.print(
        f"the smallest difference this panel could have shown (80 % power): "
        f"{100 * result['minimum_detectable']:.1f} points"
    )
    if not result["contract_equal"]:
        parts = ", ".join(result["contract_differs_in"])
        out.print(f"[yellow]the contracts differ in {parts}: read this with care[/]")
    if result["left_out"]:
        out.print(f"{result['left_out']} tasks were judged in one run only and are left out")
