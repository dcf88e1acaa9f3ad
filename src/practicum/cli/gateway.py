"""`practicum gateway`."""

from __future__ import annotations

import json as json_module
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from practicum.cli.output import JsonFlag


def gateway(
    config: Annotated[Path, typer.Argument(help="A YAML file, as in configs/gateway_local.yaml.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[key=value]...", help="Keys to replace.")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Lend desktops of many hosts behind one authenticated front until it is told to stop."""
    from practicum.config.base import read_config
    from practicum.config.gateway import GatewayConfig
    from practicum.desktops.gateway.server import serve

    settings = read_config(GatewayConfig, path=config, overrides=overrides or [])

    def announce(url: str) -> None:
        if json:
            line = json_module.dumps({"url": url, "pid": os.getpid()})
        else:
            line = f"gateway at {url}; stop with Ctrl-C"
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    serve(settings, on_ready=announce)
