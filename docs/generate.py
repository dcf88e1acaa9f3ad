"""Pages made from the program itself, so that they cannot go stale. A hook of mkdocs."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages."""
    pages = {
        "commands.md": commands_page(),
        "formats.md": formats_page(),
        "changelog.md": (ROOT / "CHANGELOG.md").read_text(),
        "contributing.md": (ROOT / "CONTRIBUTING.md").read_text().replace("docs/", ""),
    }
    for name, content in pages.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill in the marked places."""
    return markdown.replace("<!-- generated: environments -->", environments_table())


def environments_table() -> str:
    """What every installed environment says of itself."""
    from practicum.envs import registry

    rows = ["| id | what | horizon | panels |", "| --- | --- | --- | --- |"]
    for entry in registry.entries().values():
        if entry.missing():
            rows.append(f"| `{entry.id}` | {entry.summary} | not installed here | |")
            continue
        env = registry.load_env(entry.id)
        panels = ", ".join(f"{name} {len(env.panel(name))}" for name in env.panel_names())
        rows.append(f"| `{entry.id}` | {entry.summary} | {env.max_turns} | {panels} |")
    return "\n".join(rows)


def commands_page() -> str:
    """Every command's help."""
    from practicum.cli.main import app

    lines = [[str(command.name)] for command in app.registered_commands]
    for group in app.registered_groups:
        assert group.typer_instance is not None
        commands = group.typer_instance.registered_commands
        lines += [[str(group.name), str(command.name)] for command in commands]
    parts = ["# Commands\n", "Exit codes: 0 done, 1 the run failed, 2 the input was wrong.\n"]
    parts += [f"## practicum {' '.join(line)}\n\n```\n{_help(line)}\n```\n" for line in lines]
    return "\n".join(parts)


def formats_page() -> str:
    """What each action format tells the model, on TextCraft."""
    from practicum.agents.formats import FORMATS
    from practicum.envs.text.textcraft.env import COMMANDS

    parts = [
        "# Action formats\n",
        "One definition each gives the instructions below, the text of demonstrations and the "
        "parser. More than one action, an action inside an unfinished thought and an empty answer "
        "are format errors: shown to the model as feedback, and counted.\n",
    ]
    for name, action_format in FORMATS.items():
        quoted = "\n".join(
            f"    {line}" for line in action_format.instructions(COMMANDS).split("\n")
        )
        parts.append(f"## {name}\n\n{quoted}\n")
    return "\n".join(parts)


def _help(command: list[str]) -> str:
    from practicum.cli.main import app

    out = io.StringIO()
    with redirect_stdout(out):
        app(args=[*command, "--help"], prog_name="practicum", standalone_mode=False)
    text = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())
    return "\n".join(line.rstrip() for line in text.strip().splitlines())
