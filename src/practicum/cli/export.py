"""`practicum export`: data, settings and launch command for a framework that scales."""

from __future__ import annotations

import importlib
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from practicum.cli.output import JsonFlag, console, print_json
from practicum.core.errors import ConfigError, unknown_name

if TYPE_CHECKING:
    from practicum.adapters.exporting import Exported

TARGETS = {
    "areal": "practicum.adapters.areal.export",
    "trl": "practicum.adapters.trl.export",
    "verl": "practicum.adapters.verl.export",
}
"""Modules with a function `export(config, out) -> Exported`."""


def export(
    target: Annotated[str, typer.Argument(help=f"The framework: {', '.join(TARGETS)}.")],
    config: Annotated[
        Path,
        typer.Argument(help="A YAML file of `practicum rl`, as in configs/.", metavar="CONFIG"),
    ],
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Settings on top of it.", metavar="[key=value ...]")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="The folder to write; needed.", metavar="DIR")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Write what another framework needs to train as a run config says."""
    if target not in TARGETS:
        raise unknown_name("framework", target, TARGETS)
    if out is None:
        raise ConfigError("say where to write with --out DIR")
    if out.exists() and any(out.iterdir()):
        raise ConfigError(f"{out} exists already and is not empty: choose another folder")
    from practicum.config.base import read_config
    from practicum.config.train import RlConfig

    settings = read_config(RlConfig, path=config, overrides=overrides or [])
    out.mkdir(parents=True, exist_ok=True)
    written: Exported = importlib.import_module(TARGETS[target]).export(settings, out)
    if json:
        print_json(
            {
                "target": target,
                "files": [str(path) for path in written.files],
                "launch": str(written.launch),
                "overlap": asdict(written.overlap),
            }
        )
        return
    shown = console()
    for path in written.files:
        shown.print(f"wrote    {path}", markup=False)
    shown.print(f"overlap  {written.overlap}", markup=False)
    shown.print(f"start    {written.launch}", markup=False)
