"""`practicum sft CONFIG` and `practicum rl CONFIG`: train a model, and say what it gained."""

from __future__ import annotations

import asyncio
import shlex
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from practicum.cli.output import JsonFlag, console, interval, percent, points, print_json
from practicum.core.errors import ConfigError

if TYPE_CHECKING:
    from practicum.config.train import RlConfig, SftConfig
    from practicum.train.team import Team

MAX_TRANSCRIPT_WIDTH = 140

ConfigPath = Annotated[Path, typer.Argument(help="A YAML file, as in configs/.", metavar="CONFIG")]
Overrides = Annotated[
    list[str] | None, typer.Argument(help="Settings on top of it.", metavar="[key=value ...]")
]
Out = Annotated[
    Path | None,
    typer.Option("--out", help="The run folder; by default runs/ and the config's name."),
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the run folder.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the resolved config and stop.")]


def sft(
    config: ConfigPath,
    overrides: Overrides = None,
    out: Out = None,
    resume: Resume = False,
    dry_run: DryRun = False,
    json: JsonFlag = False,
) -> int:
    """Train on demonstrations."""
    from practicum.config.train import SftConfig

    return _train(SftConfig, config, overrides or [], out, resume, dry_run, json)


def rl(
    config: ConfigPath,
    overrides: Overrides = None,
    out: Out = None,
    resume: Resume = False,
    dry_run: DryRun = False,
    json: JsonFlag = False,
) -> int:
    """Train by playing, in one environment or several."""
    from practicum.config.train import RlConfig

    return _train(RlConfig, config, overrides or [], out, resume, dry_run, json)


def _train(
    kind: type[SftConfig] | type[RlConfig],
    path: Path,
    overrides: list[str],
    out: Path | None,
    is_resumed: bool,
    is_dry: bool,
    is_json: bool,
) -> int:
    from practicum.config.base import read_config
    from practicum.config.train import SftConfig

    config: SftConfig | RlConfig = read_config(kind, path=path, overrides=overrides)
    if is_dry:
        print_json(config.model_dump(mode="json"))
        return 0
    folder = out or Path("runs") / path.stem
    try:
        import matplotlib  # noqa: F401
        import torch  # noqa: F401
        import transformers
    except ImportError as error:
        raise ConfigError(f"training needs {error.name}: pip install 'practicum[train]'") from error
    transformers.utils.logging.disable_progress_bar()
    from practicum.cli.trainers import follow
    from practicum.train.team import joined

    with joined() as team:
        asked_to_stop = _listen()
        if not team.leads:
            follow(config, team)
            return 0
        report = asyncio.run(_run(config, folder, is_resumed, asked_to_stop, team, not is_json))
    if report is None:
        name = "sft" if kind is SftConfig else "rl"
        again = shlex.join(["practicum", name, str(path), *overrides, "--out", str(folder)])
        console(stderr=True).print(f"stopped; go on with: {again} --resume", markup=False)
        return 1
    if is_json:
        print_json({**report, "run": str(folder), "checkpoint": str(folder / report["checkpoint"])})
    else:
        if kind is not SftConfig:
            _print_learning(folder, is_compared=report["paired"] is not None)
        _print_report(report, folder)
    return 0


async def _run(
    config: SftConfig | RlConfig,
    folder: Path,
    is_resumed: bool,
    asked_to_stop: list[int],
    team: Team,
    is_shown: bool,
) -> dict[str, Any] | None:
    from practicum.cli.training import TrainingProgress
    from practicum.cli.training_run import Watch, run_rl, run_sft
    from practicum.config.train import RlConfig

    with TrainingProgress(is_shown=is_shown) as progress:

        def on_evaluation(name: str, report: dict[str, Any]) -> None:
            progress.say(
                f"{name}: success {interval(report['success'])} on {report['panel']}, "
                f"{report['tasks']} tasks, {report['episodes']} episodes"
            )

        watch = Watch(progress.expect, progress.add, on_evaluation, lambda: bool(asked_to_stop))
        if isinstance(config, RlConfig):
            report = await run_rl(config, folder, watch, is_resumed=is_resumed, team=team)
        else:
            report = await run_sft(config, folder, watch, is_resumed=is_resumed, team=team)
    if report is not None and (config.evaluate is not None or isinstance(config, RlConfig)):
        _draw(config, folder)
    return report


def _listen() -> list[int]:
    """Take note of signals; the list is empty until one comes."""
    asked: list[int] = []
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda number, _: _stop(number, asked))
    return asked


def _stop(number: int, asked: list[int]) -> None:
    """The first signal stops after the update under way; the second one at once."""
    if asked:
        raise KeyboardInterrupt
    asked.append(number)


def _draw(config: SftConfig | RlConfig, folder: Path) -> None:
    from practicum.store.run import Run
    from practicum.train.curve_picture import draw_curve

    rows = list(Run.open(folder).metrics())
    held_out = config.evaluate
    subtitle = f"held out: {held_out.panel}, {held_out.samples} a task" if held_out else ""
    title = f"{folder.resolve().name}: {', '.join(config.parts())}"
    draw_curve(rows, folder / "curve.png", title=title, subtitle=subtitle)


def _print_learning(folder: Path, *, is_compared: bool) -> None:
    """A task that was failed before and is solved now, and the learning curve."""
    from practicum.cli.held_out import runs_of
    from practicum.cli.transcripts import find_turnaround, transcript_pair
    from practicum.store.run import Run
    from practicum.train.curve import held_out_points, render_curve, training_points

    out = console()
    evaluations = sorted((folder / "evals").glob("update-*"))
    if is_compared:
        first, last = (
            [e for path in runs_of(evaluations[i]) for e in Run.open(path).episodes()]
            for i in (0, -1)
        )
        if pair := find_turnaround(first, last):
            text = transcript_pair(*pair, width=min(out.width, MAX_TRANSCRIPT_WIDTH))
            out.print(f"\n{text}\n", markup=False, highlight=False)
    rows = list(Run.open(folder).metrics())
    curve = render_curve(training_points(rows), held_out_points(rows))
    out.print(f"{curve}\n", markup=False, highlight=False)


def _print_report(report: dict[str, Any], folder: Path) -> None:
    out = console()
    if report["before"] is not None:
        out.print(f"before  {interval(report['before'])}")
    if report["after"] is not None:
        out.print(f"after   {interval(report['after'])} on {report['panel']}")
    if (paired := report["paired"]) is not None:
        out.print(
            f"gain    [bold]{points(paired['difference'])}[/], p = {paired['p_value']:.2g} "
            f"({paired['test']}, {paired['tasks']} tasks, paired)"
        )
    for name, part in report.get("by_env", {}).items():
        if (paired := part["paired"]) is not None:
            out.print(
                f"  {name}: {interval(part['before'])} -> {interval(part['after'])} on "
                f"{part['panel']}, {points(paired['difference'])}, p = {paired['p_value']:.2g} "
                f"({paired['tasks']} tasks)"
            )
    timings = report["timings_s"]
    phases = ("sampling", "environment", "training", "sync", "saving")
    spent = max(1e-9, sum(timings[phase] for phase in phases))
    shares = ", ".join(f"{phase} {percent(timings[phase] / spent)}" for phase in phases)
    taken_s = timings["updates"] + timings["saving"]
    out.print(f"{report['updates']} updates in {taken_s:.0f} s: {shares}")
    out.print(
        f"model {folder / report['checkpoint']}, report {folder / 'report.json'}", markup=False
    )
