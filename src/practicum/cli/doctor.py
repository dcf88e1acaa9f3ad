"""`practicum doctor`."""

from __future__ import annotations

import platform
import sys
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Annotated

import typer

from practicum.cli.output import JsonFlag, console, print_json
from practicum.core.errors import unknown_name

TOPICS = ("base", "envs")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    topic: str
    name: str
    is_fine: bool
    detail: str
    remedy: str = ""
    """The line to type when it is not fine."""


def doctor(
    topic: Annotated[str | None, typer.Argument(help="base or envs; all by default.")] = None,
    json: JsonFlag = False,
) -> int:
    """Say what this machine has, what it lacks, and the line to type."""
    if topic is not None and topic not in TOPICS:
        raise unknown_name("topic", topic, TOPICS)
    found = [f for f in [*_base(), *_envs()] if topic in (None, f.topic)]
    if json:
        print_json([asdict(finding) for finding in found])
    else:
        out = console()
        for finding in found:
            mark = "[green]ok[/]     " if finding.is_fine else "[yellow]missing[/]"
            out.print(f"{mark}  {finding.topic:5} {finding.name}: ", end="")
            out.print(finding.detail, markup=False)
            if not finding.is_fine:
                out.print(f"         {finding.remedy}", markup=False)
    return 0 if all(f.is_fine for f in found if f.topic == "base") else 1


def _base() -> list[Finding]:
    running = platform.python_version()
    findings = [
        Finding(
            "base",
            "python",
            sys.version_info >= (3, 11),
            f"{running} on {platform.system()} {platform.machine()}",
            "practicum needs Python 3.11 or newer",
        )
    ]
    for requirement in requires("practicum") or []:
        name, _, marker = requirement.partition(";")
        if "extra" in marker:
            continue
        package = name.strip().split(" ")[0].split(">")[0].split("<")[0].split("=")[0]
        try:
            findings.append(Finding("base", package, True, version(package)))
        except PackageNotFoundError:
            findings.append(
                Finding("base", package, False, "not installed", f"pip install '{name.strip()}'")
            )
    return findings


def _envs() -> list[Finding]:
    from practicum.envs import registry

    findings = []
    for entry in registry.entries().values():
        missing = entry.missing()
        detail = f"lacks {', '.join(missing)}" if missing else entry.summary
        findings.append(Finding("envs", entry.id, not missing, detail, entry.install))
    return findings
