"""`practicum data`."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from practicum.cli.output import JsonFlag, console, print_json

if TYPE_CHECKING:
    from practicum.core.episode import Episode
    from practicum.core.task import Task
    from practicum.data.tables import Conversation

MAX_ISSUES_SHOWN = 20

data = typer.Typer(
    help="Make, convert, check and split tables of conversations to learn from.",
    no_args_is_help=True,
)

TableArgument = Annotated[
    Path, typer.Argument(help="A JSONL table (messages or conversations) or a run folder.")
]
FormatOption = Annotated[str, typer.Option("--format", help="Action format.")]
TokenizerOption = Annotated[
    Path | None, typer.Option(help="A folder with a tokenizer: lengths are counted in tokens.")
]


@data.command("expert")
def expert(
    env: Annotated[str, typer.Argument(help="An id of `practicum envs`.")],
    out: Annotated[Path, typer.Option(help="The JSONL file to make.")],
    panel: Annotated[str, typer.Option(help="Which tasks.")] = "train",
    format_name: FormatOption = "react",
    script: Annotated[str, typer.Option(help="Which programmed player.")] = "expert",
    max_tasks: Annotated[
        int | None, typer.Option(min=1, help="So many, drawn by the seed.")
    ] = None,
    variants: Annotated[int, typer.Option(min=1, help="Prompt variants per task.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Of the draw.")] = 0,
    json: JsonFlag = False,
) -> None:
    """Let an environment's expert play tasks and write down what it did.

    Episodes that fail are counted and left out; one that breaks fails the command.
    """
    from practicum.agents.formats import get_format
    from practicum.data.draw import draw_tasks, with_variants
    from practicum.data.tables import episode_conversation, refuse_existing, write_table
    from practicum.envs.registry import load_env

    refuse_existing(out)
    environment = load_env(env)
    action_format = get_format(format_name)
    tasks = draw_tasks(environment.panel(panel).tasks, max_tasks, seed)
    tasks = with_variants(environment, tasks, variants)

    async def play() -> list[Episode]:
        from practicum.data.expert import expert_episodes

        try:
            return await expert_episodes(environment, tasks, action_format, script)
        finally:
            await environment.aclose()

    episodes = asyncio.run(play())
    by_id: dict[str, Task] = {task.id: task for task in tasks}
    solved = [e for e in episodes if e.is_success]
    write_table(out, [episode_conversation(e, by_id[e.task_id]) for e in solved])
    report = {
        "file": str(out),
        "env": env,
        "panel": panel,
        "tasks": len(tasks),
        "conversations": len(solved),
        "answers": sum(len(e.turns) for e in solved),
        "failed": [e.task_id for e in episodes if not e.is_success],
    }
    if json:
        print_json(report)
        return
    failed = f"; the {script} failed {len(episodes) - len(solved)}" if report["failed"] else ""
    console().print(
        f"{out}: {len(solved)} of {len(tasks)} tasks, {report['answers']} answers{failed}"
    )


@data.command("convert")
def convert(
    table: TableArgument,
    out: Annotated[Path, typer.Argument(help="The JSONL file to make.")],
    turns: Annotated[
        Literal["all", "accepted"],
        typer.Option(help="Of a run folder: accepted leaves refused and misformed answers out."),
    ] = "all",
    keep_failed: Annotated[bool, typer.Option(help="Keep failed episodes too.")] = False,
    json: JsonFlag = False,
) -> None:
    """Rewrite a table or a run folder as one JSON object with messages a line."""
    from practicum.data.tables import read_table, refuse_existing, write_table

    refuse_existing(out)
    read = read_table(table, turns)
    wanted = ("success", "", "failed") if keep_failed else ("success", "")
    kept = [c for c in read if c.outcome in wanted]
    write_table(out, kept)
    left_out = dict(Counter(c.outcome for c in read if c.outcome not in wanted))
    if json:
        print_json({"file": str(out), "conversations": len(kept), "left_out": left_out})
        return
    reasons = ", ".join(f"{count} {outcome}" for outcome, count in left_out.items())
    console().print(
        f"{out}: {len(kept)} conversations; left out: {reasons or 'none'}", markup=False
    )


@data.command("validate")
def validate_table(
    table: TableArgument,
    env: Annotated[str, typer.Option(help="The environment it is about.")],
    against: Annotated[
        str | None, typer.Option(help="A panel whose tasks and families must not occur.")
    ] = None,
    format_name: FormatOption = "react",
    max_length: Annotated[
        int | None, typer.Option(min=1, help="In characters, or in tokens with --tokenizer.")
    ] = None,
    tokenizer: TokenizerOption = None,
    json: JsonFlag = False,
) -> int:
    """Check that a table can be learned from; exit code 1 if it cannot."""
    from dataclasses import asdict

    from practicum.agents.formats import get_format
    from practicum.data.tables import read_table
    from practicum.data.validate import Checks, validate
    from practicum.envs.registry import load_env

    environment = load_env(env)
    checks = Checks(
        environment,
        get_format(format_name),
        environment.panel(against) if against is not None else None,
        max_length,
    )
    if tokenizer is not None:
        checks.length = _token_counter(tokenizer)
    conversations = read_table(table)
    result = validate(conversations, checks)
    if json:
        print_json(
            {
                "conversations": len(conversations),
                "valid": not result.issues,
                "by_kind": result.counts(),
                "overlap": {"checked_against": against, "unknown_tasks": result.num_unknown},
                "issues": [asdict(issue) for issue in result.issues],
            }
        )
        return 1 if result.issues else 0
    out = console()
    for issue in result.issues[:MAX_ISSUES_SHOWN]:
        out.print(f"{issue.where} {issue.message}", markup=False)
    counts = ", ".join(f"{kind} {count}" for kind, count in result.counts().items())
    out.print(f"{len(conversations)} conversations; issues: {counts or 'none'}")
    if against is not None and result.num_unknown:
        out.print(
            f"[yellow]{result.num_unknown} name no known task or family: "
            f"overlap with {against} cannot be told for them[/]"
        )
    return 1 if result.issues else 0


@data.command("split")
def split(
    table: TableArgument,
    by: Annotated[Literal["task", "family"], typer.Option(help="What stays whole.")] = "family",
    fraction: Annotated[float, typer.Option(min=0, max=1, help="The share to split off.")] = 0.1,
    seed: Annotated[int, typer.Option(min=0, help="Of the draw.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Folder for NAME.rest.jsonl and NAME.split.jsonl.")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Split off a part of a table, with tasks or families kept whole."""
    from practicum.data.split import split_conversations
    from practicum.data.tables import read_table, refuse_existing, write_table

    folder = out or table.parent
    files = [folder / f"{table.stem}.{part}.jsonl" for part in ("rest", "split")]
    for file in files:
        refuse_existing(file)
    parts = split_conversations(read_table(table), by, fraction, seed)
    for file, part in zip(files, parts, strict=True):
        write_table(file, part)
    if json:
        names = ("rest", "split")
        rows = zip(names, files, parts, strict=True)
        print_json({n: {"file": str(f), "conversations": len(p)} for n, f, p in rows})
        return
    for file, part in zip(files, parts, strict=True):
        console().print(f"{file}: {len(part)} conversations", markup=False)


@data.command("stats")
def stats(table: TableArgument, tokenizer: TokenizerOption = None, json: JsonFlag = False) -> None:
    """Count what a table holds."""
    from practicum.data.stats import describe
    from practicum.data.tables import read_table

    length = _token_counter(tokenizer) if tokenizer is not None else None
    found = describe(read_table(table), length)
    if json:
        print_json(found)
        return
    out = console()
    for name, value in found.items():
        out.print(f"{name}: {_line(value)}", markup=False)


def _token_counter(tokenizer: Path) -> Callable[[Conversation], int]:
    from practicum.policies.rendering import Renderer

    renderer = Renderer.load(tokenizer)

    def count(conversation: Conversation) -> int:
        ids, _ = renderer.conversation_ids(conversation.messages)
        return len(ids)

    return count


def _line(value: Any) -> str:
    if not isinstance(value, dict):
        return str(value)
    return ", ".join(
        f"{k} {v:.1f}" if isinstance(v, float) else f"{k} {v}" for k, v in value.items()
    )
