"""`practicum serve`."""

from __future__ import annotations

import json as json_module
import os
import sys
from typing import Annotated, Literal

import typer

from practicum.cli.output import JsonFlag
from practicum.core.errors import ConfigError


def serve(
    env: Annotated[str, typer.Argument(help="An id of `practicum envs`.")],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="[key=value]...", help="The environment's options."),
    ] = None,
    port: Annotated[int, typer.Option(help="0 takes a free one.", min=0, max=65535)] = 0,
    host: Annotated[str, typer.Option(help="Where to listen; others need a token.")] = "127.0.0.1",
    dialect: Annotated[
        Literal["agentgym", "native", "openenv"],
        typer.Option(help="Which clients it speaks with."),
    ] = "native",
    workers: Annotated[int, typer.Option(help="Processes.", min=1)] = 1,
    capacity: Annotated[int, typer.Option(help="Sessions at once, in all.", min=1)] = 1024,
    ttl_s: Annotated[float, typer.Option(help="Seconds a silent session is kept.")] = 300.0,
    token_env: Annotated[
        str | None, typer.Option(help="Variable with the bearer token that clients must send.")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Serve an environment over HTTP and WebSocket until it is told to stop."""
    from practicum.config.base import read_overrides

    token = None
    if token_env is not None:
        token = os.environ.get(token_env)
        if not token:
            raise ConfigError(f"--token-env {token_env}: there is no such variable, or it is empty")

    def announce(url: str) -> None:
        if json:
            line = json_module.dumps({"url": url, "pid": os.getpid()})
        else:
            line = f"{env} at {url} ({dialect}); stop with Ctrl-C"
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    if dialect == "openenv":
        from practicum.adapters.openenv.server import serve as serve_openenv

        if workers > 1:
            raise ConfigError("--dialect openenv keeps its sessions in one process: --workers 1")
        serve_openenv(
            env,
            port=port,
            host=host,
            capacity=capacity,
            ttl_s=ttl_s,
            token=token,
            on_ready=announce,
            options=read_overrides(overrides or []),
        )
        return
    from practicum.envs.http.server import serve as serve_environments

    serve_environments(
        [env],
        port=port,
        dialect=dialect,
        workers=workers,
        capacity=capacity,
        ttl_s=ttl_s,
        token=token,
        host=host,
        on_ready=announce,
        options=read_overrides(overrides or []),
    )
