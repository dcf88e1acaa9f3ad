"""`practicum envs`."""

from __future__ import annotations

from typing import Any

from practicum.cli.output import JsonFlag, console, print_json


def envs(json: JsonFlag = False) -> None:
    """List the environments: how they run, what they lack, how many tasks they have."""
    from practicum.envs import registry

    rows = [_describe(entry) for entry in registry.entries().values()]
    if json:
        print_json(rows)
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in ("id", "what", "transports", "installed", "tasks per panel"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        state = "yes" if row["installed"] else row["install"]
        panels = ", ".join(f"{name} {count}" for name, count in row["panels"].items())
        table.add_row(row["id"], row["summary"], ", ".join(row["transports"]), state, panels)
    console().print(table)


def _describe(entry: Any) -> dict[str, Any]:
    from practicum.envs import registry

    missing = entry.missing()
    panels = {}
    if not missing:
        environment = registry.load_env(entry.id)
        panels = {name: len(environment.panel(name)) for name in environment.panel_names()}
    return {
        "id": entry.id,
        "summary": entry.summary,
        "transports": ["in-process", "http", "websocket"],
        "installed": not missing,
        "install": entry.install,
        "panels": panels,
    }
