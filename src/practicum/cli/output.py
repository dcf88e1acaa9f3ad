"""Writing to standard output: one JSON document, or text for a person."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON document, nothing else.")]


def print_json(document: Any) -> None:
    """Write a JSON document to standard output."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def console(*, stderr: bool = False) -> Console:
    """A rich console; progress goes to standard error, results to standard output."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, soft_wrap=True)


def percent(share: float | None) -> str:
    """Write a share as a percentage."""
    return "–" if share is None else f"{100 * share:.1f} %"


def interval(estimate: dict[str, Any]) -> str:
    """Write a mean with its interval, as in `57.4 % [49.1, 65.3]`."""
    if estimate["mean"] is None:
        return "–"
    return (
        f"{percent(estimate['mean'])} [{100 * estimate['low']:.1f}, {100 * estimate['high']:.1f}]"
    )


def points(estimate: dict[str, Any]) -> str:
    """Write a difference of two shares with its interval, in percentage points."""
    low, high = 100 * estimate["low"], 100 * estimate["high"]
    return f"{100 * estimate['mean']:+.1f} points [{low:+.1f}, {high:+.1f}]"
