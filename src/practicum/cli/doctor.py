"""`practicum doctor`."""

from __future__ import annotations

import importlib
import platform
import sys
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Annotated

import typer

from practicum.cli.output import JsonFlag, console, print_json
from practicum.core.errors import ConfigError, unknown_name
from practicum.core.finding import Finding

TOPICS = ("base", "envs", "desktop")
"""Looked at without being asked for."""

ENGINES = {
    "areal": "practicum.adapters.areal.doctor",
    "verl": "practicum.adapters.verl.doctor",
}
"""Looked at when asked for; modules with a function `examine(folder) -> list[Finding]`."""


def doctor(
    topic: Annotated[
        str | None,
        typer.Argument(help=f"{', '.join(TOPICS)} (all three by default), {', '.join(ENGINES)}."),
    ] = None,
    folder: Annotated[
        Path | None, typer.Argument(help="What `practicum export` wrote for the framework.")
    ] = None,
    json: JsonFlag = False,
) -> int:
    """Say what this machine has, what it lacks, and the line to type."""
    if topic is not None and topic not in (*TOPICS, *ENGINES):
        raise unknown_name("topic", topic, (*TOPICS, *ENGINES))
    if folder is not None and topic not in ENGINES:
        raise ConfigError(f"a folder goes with one of {', '.join(ENGINES)}: leave it out")
    if topic in ENGINES:
        found: list[Finding] = importlib.import_module(ENGINES[topic]).examine(folder)
    else:
        found = [f for f in [*_base(), *_envs(), *_desktop()] if topic in (None, f.topic)]
    if json:
        print_json([asdict(finding) for finding in found])
    else:
        out = console()
        for finding in found:
            mark = "[green]ok[/]     " if finding.is_fine else "[yellow]missing[/]"
            out.print(f"{mark}  {finding.topic:7} {finding.name}: ", end="")
            out.print(finding.detail, markup=False)
            if not finding.is_fine:
                out.print(f"         {finding.remedy}", markup=False)
    needed = ("base", *ENGINES)
    return 0 if all(f.is_fine for f in found if f.topic in needed) else 1


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


def _desktop() -> list[Finding]:
    from importlib.util import find_spec

    from practicum.desktops.namespaces import why_no_room
    from practicum.desktops.packages import PACKAGES, install_line

    findings = []
    for module, name in {"xcffib": "xcffib", "dbus_fast": "dbus-fast", "PIL": "pillow"}.items():
        is_there = find_spec(module) is not None
        detail = version(name) if is_there else "not installed"
        remedy = "pip install 'practicum[desktop]'"
        findings.append(Finding("desktop", name, is_there, detail, remedy))
    for package in PACKAGES:
        is_there = package.is_installed
        detail = package.purpose if is_there else f"{package.purpose}: not installed"
        findings.append(Finding("desktop", package.name, is_there, detail, install_line([package])))
    missing = [package for package in PACKAGES if not package.is_installed]
    if len(missing) > 1:
        findings.append(
            Finding(
                *("desktop", "packages", False, f"{len(missing)} not installed; all at once:"),
                install_line(missing),
            )
        )
    reason = why_no_room()
    findings.append(
        Finding(
            *("desktop", "namespaces", reason is None, reason or "the namespace body can be used"),
            "use the xvfb body, which needs none",
        )
    )
    return findings
