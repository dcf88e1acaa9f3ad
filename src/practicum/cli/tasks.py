"""`practicum tasks`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from practicum.cli.output import JsonFlag, console, print_json

if TYPE_CHECKING:
    from practicum.core.env import Environment
    from practicum.core.task import Panel


def tasks(
    env: Annotated[str, typer.Argument(help="An id of `practicum envs`.")],
    panel: Annotated[str, typer.Option(help="Which panel.")] = "test",
    hash: Annotated[  # noqa: A002 - the option's name
        bool, typer.Option("--hash", help="One sha256 over (task id, first observation).")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """List a panel's tasks, or hash what an agent sees first in each of them."""
    from practicum.envs import registry

    environment = registry.load_env(env)
    chosen = environment.panel(panel)
    if hash:
        digest = asyncio.run(_hash_first_observations(environment, chosen))
        if json:
            print_json({"env": env, "panel": panel, "tasks": len(chosen), "hash": digest})
        else:
            console().print(f"{digest}  {env}/{panel}, {len(chosen)} tasks")
        return
    if json:
        rows = [
            {
                "id": task.id,
                "prompt": task.prompt,
                "split": task.split,
                "difficulty": task.difficulty,
                "family": task.family,
            }
            for task in chosen
        ]
        print_json({"env": env, "panel": panel, "panel_hash": chosen.hash, "tasks": rows})
        return
    out = console()
    for task in chosen:
        out.print(f"{task.id}  {task.difficulty:10}  {task.prompt}", markup=False)
    out.print(f"{len(chosen)} tasks, panel hash {chosen.hash}")


async def _hash_first_observations(environment: Environment, panel: Panel) -> str:
    from practicum.core.canonical import content_hash

    rows = []
    for task in sorted(panel, key=lambda task: task.id):
        async with environment.open(task) as env:
            first = await env.start()
            rows.append([task.id, first.text, [image.hash for image in first.images]])
    await environment.aclose()
    return content_hash(rows)
