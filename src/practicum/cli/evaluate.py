"""`practicum eval`."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from practicum.cli.output import JsonFlag, console, interval, percent, print_json
from practicum.core.errors import ConfigError

if TYPE_CHECKING:
    from practicum.config.eval import EvalConfig


def evaluate(
    env: Annotated[
        str | None, typer.Argument(help="An id of `practicum envs`, or several with commas.")
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[key=value]...", help="Further settings.")
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(help="expert, random, replay:RUN, openai:MODEL@BASE_URL."),
    ] = None,
    panel: Annotated[str | None, typer.Option(help="Which tasks; default test.")] = None,
    samples: Annotated[int | None, typer.Option(help="Episodes per task.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the run.")] = None,
    format: Annotated[  # noqa: A002 - the option's name
        str | None, typer.Option(help="Action format; default react.")
    ] = None,
    server: Annotated[str | None, typer.Option(help="Play against an environment server.")] = None,
    concurrency: Annotated[int | None, typer.Option(help="Episodes at once.")] = None,
    max_turns: Annotated[int | None, typer.Option(help="Limit; default: the horizon.")] = None,
    temperature: Annotated[float | None, typer.Option(help="Sampling temperature.")] = None,
    config: Annotated[Path | None, typer.Option(help="A YAML file of settings.")] = None,
    out: Annotated[Path | None, typer.Option(help="The run folder to make.")] = None,
    resume: Annotated[Path | None, typer.Option(help="A run folder to go on with.")] = None,
    dry_run: Annotated[bool, typer.Option(help="Print the resolved plan and stop.")] = False,
    json: JsonFlag = False,
) -> int:
    """Judge a policy on a panel of tasks."""
    given = {
        "env": env,
        "policy": policy,
        "panel": panel,
        "samples": samples,
        "seed": seed,
        "format": format,
        "server": server,
        "concurrency": concurrency,
        "limits.max_turns": max_turns,
        "sampling.temperature": temperature,
    }
    extra = list(overrides or [])
    if env is not None and "=" in env:  # `eval --resume DIR key=value` names no environment
        extra.insert(0, env)
        given["env"] = None
    settings = [*_as_overrides(given), *extra]
    if out is not None and resume is not None:
        raise ConfigError("--out makes a new run and --resume goes on with one: give one of them")
    resolved = _resumed_config(resume, settings) if resume else _new_config(config, settings)
    if dry_run:
        _print_plan(resolved)
        return 0
    folder = resume or out or _default_folder(resolved)
    report = asyncio.run(_run(resolved, folder, is_resumed=resume is not None, quiet=json))
    if json:
        print_json({**report, "run": str(folder)})
    elif "by_env" in report:
        for env_id, part in report["by_env"].items():
            _print_report(part, folder / env_id)
    else:
        _print_report(report, folder)
    return 0 if report["episodes"] else 1


def _as_overrides(given: dict[str, Any]) -> list[str]:
    import json as json_module

    return [f"{key}={json_module.dumps(v)}" for key, v in given.items() if v is not None]


def _new_config(path: Path | None, settings: list[str]) -> EvalConfig:
    from practicum.config.base import read_config
    from practicum.config.eval import EvalConfig

    return read_config(EvalConfig, path=path, overrides=settings)


def _resumed_config(path: Path, settings: list[str]) -> EvalConfig:
    from practicum.config.base import read_config
    from practicum.config.eval import EvalConfig
    from practicum.store.run import Run

    recorded = Run.open(path).header["config"]
    resolved = read_config(EvalConfig, values=recorded)
    asked = read_config(EvalConfig, values=recorded, overrides=settings)
    changed = [
        name
        for name, value in asked.model_dump().items()
        if value != resolved.model_dump()[name] and name != "concurrency"
    ]
    if changed:
        raise ConfigError(
            f"{path} was started with another {', '.join(changed)}: "
            "leave those options away to resume it, or start a new run"
        )
    return asked


async def _run(
    config: EvalConfig, folder: Path, *, is_resumed: bool, quiet: bool
) -> dict[str, Any]:
    from practicum.cli.progress import EpisodeProgress
    from practicum.evaluate import joint

    evaluations = joint.prepare_all(config)
    try:
        if is_resumed:
            runs = joint.resume_all(evaluations, folder)
        else:
            runs = joint.start_all(config, evaluations, folder)
        total = sum(evaluation.num_episodes for evaluation in evaluations)
        with EpisodeProgress(total, runs, is_shown=not quiet) as progress:
            try:
                return await joint.run_all(evaluations, runs, progress.add)
            except asyncio.CancelledError:
                progress.say(f"stopped; go on with: practicum eval --resume {folder}")
                raise
    finally:
        for evaluation in evaluations:
            await evaluation.aclose()


def _default_folder(config: EvalConfig) -> Path:
    env, policy = (re.sub(r"[^\w.-]+", "-", t).strip("-")[:40] for t in (config.env, config.policy))
    return Path("runs") / f"{time.strftime('%Y%m%d-%H%M%S')}-{env}-{policy}"


def _print_plan(config: EvalConfig) -> None:
    from practicum.evaluate import joint

    plans = [
        {
            "config": evaluation.config.model_dump(mode="json"),
            "contract": dict(evaluation.contract),
            "overlap": dict(evaluation.overlap),
            "tasks": len(evaluation.panel),
            "episodes": evaluation.num_episodes,
            "max_turns": evaluation.max_turns,
        }
        for evaluation in joint.prepare_all(config)
    ]
    print_json(plans[0] if len(plans) == 1 else plans)


def _print_report(report: dict[str, Any], folder: Path) -> None:
    from rich.table import Table

    out = console()
    faults, overlap, turns = report["faults"], report["overlap"], report["turns"]
    out.print(
        f"[bold]{report['policy']}[/] on {report['env']}/{report['panel']}: "
        f"success [bold]{interval(report['success'])}[/] over {report['tasks']} tasks, "
        f"{report['episodes']} episodes"
    )
    table = Table(box=None, pad_edge=False)
    for heading in ("", "success", "tasks", "episodes"):
        table.add_column(heading)
    for name, row in report["by_difficulty"].items():
        table.add_row(name, interval(row), str(row["tasks"]), str(row["episodes"]))
    out.print(table)
    if report["samples"] > 1:
        chances = ", ".join(f"{k}: {percent(v)}" for k, v in report["pass_at"].items())
        out.print(f"pass@k  {chances}")
    if report["episodes"]:
        stops = ", ".join(f"{name} {count}" for name, count in report["stops"].items())
        out.print(
            f"turns mean {turns['mean']:.1f}, p95 {turns['p95']}; "
            f"invalid actions {percent(report['invalid_action_rate'])}; ended: {stops}"
        )
    kinds = ", ".join(f"{kind} {count}" for kind, count in faults["by_kind"].items())
    style = "yellow" if faults["total"] else "green"
    out.print(f"[{style}]broken episodes, left out: {faults['total']}[/] {kinds}")
    style = "yellow" if overlap["tasks"] or overlap["families"] else "green"
    out.print(
        f"[{style}]overlap with {overlap['checked_against']}: {overlap['tasks']} tasks, "
        f"{overlap['families']} families[/]"
    )
    out.print(f"contract {report['contract'][:12]}, report {folder / 'report.json'}", markup=False)
