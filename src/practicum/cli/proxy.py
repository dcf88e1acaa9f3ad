"""`practicum proxy`."""

from __future__ import annotations

import json as json_module
import os
import sys
from typing import Annotated

import typer

from practicum.cli.output import JsonFlag


def proxy(
    upstream: Annotated[
        str, typer.Option(help="Who answers: openai:MODEL@BASE_URL, hf:PATH or vllm:PATH.")
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="[key=value]...", help="Further settings, as in hf.max_context."),
    ] = None,
    port: Annotated[int, typer.Option(help="0 takes a free one.", min=0, max=65535)] = 0,
    host: Annotated[str, typer.Option(help="Where to listen.")] = "127.0.0.1",
    admin_key_env: Annotated[
        str | None,
        typer.Option(help="Variable with the admin key; without it a new one is printed."),
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Answer agents that speak OpenAI or Anthropic, and record every token for training."""
    from practicum.config.base import read_config
    from practicum.config.proxy import ProxyConfig
    from practicum.policies.proxy.server import serve

    given = {"upstream": upstream, "port": port, "host": host, "admin_key_env": admin_key_env}
    settings = read_config(ProxyConfig, values=given, overrides=overrides or [])

    def announce(url: str, admin_key: str) -> None:
        shown = None if admin_key_env else admin_key
        if json:
            line = json_module.dumps({"url": url, "pid": os.getpid(), "admin_key": shown})
        else:
            key = f"the key in {admin_key_env}" if shown is None else shown
            line = f"{upstream} at {url}, admin key: {key}; stop with Ctrl-C"
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    serve(settings, announce)
