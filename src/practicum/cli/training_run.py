"""A training run from end to end: evaluate, train, evaluate again, compare, report.

The loop itself is `train/`, judging is `evaluate/`; this is where the two meet.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from practicum.agents.chat import ChatAgent
from practicum.agents.formats import get_format
from practicum.cli.held_out import HeldOut, World, success_metrics, summarise_parts
from practicum.cli.trainers import Start, make_model, make_reference, make_trainer
from practicum.config.mixture import PartConfig
from practicum.config.train import RlConfig, SftConfig, TrainingConfig
from practicum.core.agent import Sampling
from practicum.core.env import Environment, Guided, Milestoned
from practicum.core.episode import Episode
from practicum.core.errors import ConfigError
from practicum.core.reward import RewardFn
from practicum.data.demonstrations import (
    play_demonstrations,
    read_demonstrations,
    require_scripts,
)
from practicum.data.draw import training_tasks
from practicum.envs.registry import load_env
from practicum.evaluate.statistics import Tally, estimate_success
from practicum.policies.local.engine import EngineOptions
from practicum.policies.local.policy import HfPolicy
from practicum.policies.local.weights import LocalModel, find_model
from practicum.rewards.milestones import judge_milestones
from practicum.rewards.outcome import judge_outcome
from practicum.rewards.progress import judge_progress
from practicum.rollout.play import Limits, Slots, Table
from practicum.store.files import to_text, write_atomically
from practicum.store.run import Run
from practicum.train.batch import written_sample
from practicum.train.checkpoint import (
    MANIFEST_FILE,
    STATE_FILE,
    drop_old,
    latest_checkpoint,
    read_manifest,
    read_progress,
    training_manifest,
    write_checkpoint,
)
from practicum.train.loop import Evaluate, Journal, Progress, train_online
from practicum.train.mixture import Mixture, OpenGroup, Part
from practicum.train.sft import fitting, num_updates, train_supervised
from practicum.train.team import ALONE, Team
from practicum.train.trainer import LocalTrainer, Metrics

Json = dict[str, Any]
Reports = dict[str, Json]
"""Of an evaluation, by environment."""
GROWING_FILES = ("episodes.jsonl", "metrics.jsonl")
"""Cut back to where they were when a run goes back to a checkpoint."""


@dataclass(frozen=True)
class Watch:
    """Who is told about the run as it goes."""

    on_start: Callable[[int], None]
    """With the number of updates."""
    on_metrics: Callable[[Metrics], None]
    on_evaluation: Callable[[str, Json], None]
    is_stopping: Callable[[], bool] = lambda: False


@dataclass
class TrainingRun:
    """A run folder and everything that works on it."""

    config: TrainingConfig
    run: Run
    worlds: Sequence[World]
    model: LocalModel
    """The one that is trained."""
    policy: HfPolicy
    """Samples with the same weights, or with a copy where both go on at once."""
    watch: Watch
    team: Team = ALONE

    @property
    def held_out(self) -> HeldOut:
        """Its evaluations."""
        return HeldOut(self.config, self.run.path, self.worlds)

    async def evaluate(self, update: int) -> dict[str, Json]:
        """Evaluate the weights after so many updates, each environment by itself."""
        self.policy.engine.resume(weights_changed=True)
        reports = await self.held_out.evaluate(self.policy, update)
        when = "before" if update == 0 else f"update {update}"
        for name, report in reports.items():
            self.watch.on_evaluation(when if len(reports) == 1 else f"{when}, {name}", report)
        return reports

    def metrics(self, reports: dict[str, Json], update: int) -> dict[str, float]:
        """What an evaluation says, for the run's metrics."""
        metrics = success_metrics(self.held_out.together(reports, update))
        if len(reports) > 1:
            for name, report in reports.items():
                metrics |= success_metrics(report, f"env/{name}/")
        return metrics

    def mixture(self, config: RlConfig) -> Mixture:
        """What training plays; the environments share the sampler's slots."""
        sampling = Sampling(config.sampling.temperature, 1.0, config.sampling.max_tokens)
        slots = Slots(config.sampler.slots)
        parts = [
            Part(
                w.name,
                self._table(w, sampling, slots),
                w.tasks,
                w.part.weight,
                w.part.max_turns,
                w.part.curriculum,
            )
            for w in self.worlds
        ]
        return Mixture(parts, config.seed, config.mixture.adaptive if config.mixture else None)

    def _table(self, world: World, sampling: Sampling, slots: Slots) -> Table:
        wanted = world.part.limits or self.config.limits
        limits = Limits(
            wanted.max_turns or world.environment.max_turns,
            wanted.turn_timeout_s,
            wanted.answer_timeout_s,
            wanted.max_repeated_refusals,
        )
        action_format = get_format(self.config.format)
        agent = ChatAgent(world.environment, action_format, self.policy, sampling)
        judge: RewardFn = judge_outcome
        if world.part.dense > 0:
            judge = _dense(world.environment, world.part)
        return Table(world.environment, agent, judge, limits, slots)

    def note_training_set(self, sets: Iterable[tuple[str, Iterable[str], Iterable[str]]]) -> None:
        """Write down what the model will have been trained on, earlier trainings included.

        Each set has a name, task ids and families.
        """
        manifest = read_manifest(find_model(self.config.model.path))
        for name, task_ids, families in sets:
            manifest = training_manifest(name, task_ids, families, manifest)
        assert manifest is not None
        write_atomically(self.run.path / MANIFEST_FILE, to_text(manifest))

    def start_trainer(self, num_updates: int, is_resumed: bool) -> LocalTrainer:
        """The trainer, here and in every other process of the team."""
        found = latest_checkpoint(self.run.path / "checkpoints") if is_resumed else None
        self.team.send(Start(num_updates, found))
        return make_trainer(self.config, self.model, num_updates, self.team)

    async def aclose(self) -> None:
        """Release the environments."""
        for world in self.worlds:
            await world.environment.aclose()


def _dense(environment: Environment, part: PartConfig) -> RewardFn:
    """Pay turns by milestones, or by whoever can say how far the goal is."""
    if isinstance(environment, Milestoned):
        return judge_milestones(judge_outcome, part.dense)
    if not isinstance(environment, Guided):
        raise ConfigError(
            f"dense={part.dense:g} needs milestones or an expert that counts the turns left, "
            f"and {environment.id} has neither: leave dense out"
        )
    return judge_progress(judge_outcome, environment, part.dense)


async def run_rl(
    config: RlConfig, path: Path, watch: Watch, *, is_resumed: bool = False, team: Team = ALONE
) -> Json | None:
    """Train by playing; returns the report that is also written, or None if asked to stop."""
    began = perf_counter()
    session = _open(config, "rl", path, watch, is_resumed, team, has_tasks=True)
    try:
        with session.run.exclusive():
            return await _train_rl(config, session, began, is_resumed)
    finally:
        await session.aclose()


async def _train_rl(
    config: RlConfig, session: TrainingRun, began: float, is_resumed: bool
) -> Json | None:
    watch = session.watch
    session.note_training_set(
        (_training_set(w.part), (t.id for t in w.tasks), (t.family for t in w.tasks))
        for w in session.worlds
    )
    watch.on_start(config.num_updates)
    before = await _before(session)
    reference = make_reference(config, session.model)
    trainer = session.start_trainer(config.num_updates, is_resumed)
    mixture = session.mixture(config)
    progress = _take_up(session, trainer, mixture) if is_resumed else Progress()
    with _journal(session, trainer, progress, before) as journal:
        checkpoint = await train_online(
            config,
            mixture,
            session.policy,
            trainer,
            _evaluator(session),
            journal,
            progress,
            reference,
        )
        session.team.send(None)
        return await _finish(session, journal, progress, before, checkpoint, began)


async def run_sft(
    config: SftConfig, path: Path, watch: Watch, *, is_resumed: bool = False, team: Team = ALONE
) -> Json | None:
    """Train on demonstrations; returns the report that is also written, or None if stopped."""
    began = perf_counter()
    is_played = config.demonstrations.source == "expert"
    session = _open(config, "sft", path, watch, is_resumed, team, has_tasks=is_played)
    try:
        with session.run.exclusive():
            return await _train_sft(config, session, began, is_resumed)
    finally:
        await session.aclose()


async def _train_sft(
    config: SftConfig, session: TrainingRun, began: float, is_resumed: bool
) -> Json | None:
    watch = session.watch
    renderer = session.policy.renderer
    if config.demonstrations.path is not None:
        shown = [read_demonstrations(config.demonstrations, renderer)]
        names = [config.demonstrations.path]
    else:
        require_scripts(config.demonstrations, (w.environment for w in session.worlds))
        shown = [
            await play_demonstrations(config, w.environment, w.tasks, renderer)
            for w in session.worlds
        ]
        names = [_training_set(w.part) for w in session.worlds]
    samples = fitting([written_sample(*s) for one in shown for s in one.samples], config)
    session.note_training_set(
        (name, one.task_ids, one.families) for name, one in zip(names, shown, strict=True)
    )
    total = num_updates(config, len(samples))
    watch.on_start(total)
    before = await _before(session)
    trainer = session.start_trainer(total, is_resumed)
    progress = _take_up(session, trainer) if is_resumed else Progress()
    with _journal(session, trainer, progress, before) as journal:
        checkpoint = await train_supervised(
            config, samples, trainer, _evaluator(session), journal, progress
        )
        session.team.send(None)
        return await _finish(session, journal, progress, before, checkpoint, began)


def _evaluator(session: TrainingRun) -> Evaluate | None:
    if session.config.evaluate is None:
        return None

    async def evaluate(update: int) -> Mapping[str, float]:
        return session.metrics(await session.evaluate(update), update)

    return evaluate


def _open(
    config: TrainingConfig,
    kind: str,
    path: Path,
    watch: Watch,
    is_resumed: bool,
    team: Team,
    *,
    has_tasks: bool,
) -> TrainingRun:
    get_format(config.format)
    worlds = [_world(config, name, part, has_tasks) for name, part in config.parts().items()]
    model = make_model(config)
    is_overlapped = isinstance(config, RlConfig) and config.max_staleness > 0
    policy = HfPolicy(
        model.copy() if is_overlapped else model,
        EngineOptions(
            num_slots=config.sampler.slots,
            max_context=config.model.max_context,
            prefill_rows=config.sampler.prefill_rows,
            use_graphs=config.sampler.cuda_graphs,
            compile=config.model.compile,
        ),
    )
    settings = config.model_dump(mode="json")
    if is_resumed:
        run = _reopen(path, kind, settings)
    else:
        tasks = {task.id: task for world in worlds for task in world.tasks}
        run = Run.create(path, kind, {"config": settings}, tasks.values())
    return TrainingRun(config, run, worlds, model, policy, watch, team)


def _world(config: TrainingConfig, name: str, part: PartConfig, has_tasks: bool) -> World:
    """Look up all that an environment is asked for, before anything costly is done."""
    environment = load_env(part.env, **part.options)
    if config.evaluate is not None:
        environment.panel(part.evaluate.panel or config.evaluate.panel)
    if part.dense > 0:
        _dense(environment, part)
    if not has_tasks:
        return World(name, part, environment, [])
    tasks = training_tasks(environment, part, config.seed)
    if part.curriculum is not None and len({task.difficulty for task in tasks}) < 2:
        raise ConfigError(
            f"curriculum: all {len(tasks)} tasks are of one difficulty, {tasks[0].difficulty!r}: "
            "give more, or leave curriculum out"
        )
    return World(name, part, environment, tasks)


def _reopen(path: Path, kind: str, settings: Json) -> Run:
    run = Run.open(path)
    if run.kind != kind:
        raise ConfigError(f"{path} is a run of kind {run.kind!r}, not {kind!r}")
    recorded = run.header["config"]
    if recorded != settings:
        differ = [key for key, value in settings.items() if recorded.get(key) != value]
        raise ConfigError(
            f"{path} was started with another {', '.join(differ)}: "
            "resume with the same config, or start a new run"
        )
    return run


def _take_up(
    session: TrainingRun, trainer: LocalTrainer, mixture: Mixture | None = None
) -> Progress:
    """Go back to the newest checkpoint: weights, optimiser, cursors and the run's files."""
    folder = session.run.path
    checkpoint = latest_checkpoint(folder / "checkpoints")
    saved: Json = {"files": {}} if checkpoint is None else read_progress(checkpoint)
    for name in GROWING_FILES:
        if (folder / name).exists():
            os.truncate(folder / name, saved["files"].get(name, 0))
    if checkpoint is None:
        return Progress()
    trainer.load_state(checkpoint / STATE_FILE)
    trainer.publish(session.policy.model)
    session.policy.engine.resume(weights_changed=True)
    if mixture is None:
        return Progress(saved["update"], saved["train_s"], saved["saving_s"])
    wanted = {e for group in saved["open_groups"] for e in group["episodes"].values()}
    wanted |= set(saved["replay"])
    episodes = {e.id: e for e in session.run.episodes() if e.id in wanted} if wanted else {}
    groups = _open_groups(session, mixture, saved["open_groups"], episodes)
    replay = [episodes[episode_id] for episode_id in saved["replay"]]
    return Progress(
        saved["update"], saved["train_s"], saved["saving_s"], saved["mixture"], groups, replay
    )


def _open_groups(
    session: TrainingRun,
    mixture: Mixture,
    saved: Sequence[Json],
    episodes: Mapping[str, Episode],
) -> list[OpenGroup]:
    """Half-finished groups of a checkpoint, with the episodes that had ended."""
    tasks = {task.id: task for world in session.worlds for task in world.tasks}
    return [
        OpenGroup(
            group["number"],
            mixture.parts[group["part"]],
            tasks[group["task_id"]],
            group["seed"],
            {int(sample): episodes[e] for sample, e in group["episodes"].items()},
            group["version"],
        )
        for group in saved
    ]


@contextmanager
def _journal(
    session: TrainingRun, trainer: LocalTrainer, progress: Progress, before: Reports | None
) -> Iterator[Journal]:
    run, config = session.run, session.config
    checkpoints = run.path / "checkpoints"
    with ExitStack() as stack:
        record = stack.enter_context(run.recording())
        measure = stack.enter_context(run.measuring())
        track: Callable[[Metrics], None] = lambda _: None  # noqa: E731
        if config.trackers:
            from practicum.train.trackers import TrackedRun, tracking

            tracked = TrackedRun(run.path, run.header["config"], progress.update + 1)
            track = stack.enter_context(tracking(config.trackers, tracked))

        logged_s = progress.saving_s

        def log(metrics: Metrics) -> None:
            nonlocal logged_s
            if (saving_s := progress.saving_s - logged_s) > 0:
                logged_s = progress.saving_s
                metrics = {**metrics, "time/saving_s": saving_s}
            measure(metrics)
            track(metrics)
            session.watch.on_metrics(metrics)

        def save(reached: Progress) -> Path:
            began = perf_counter()
            sizes = {name: (run.path / name).stat().st_size for name in GROWING_FILES}
            manifest = read_manifest(run.path)
            assert manifest is not None
            saved = {**reached.to_json(), "files": sizes}
            path = write_checkpoint(checkpoints, trainer, saved, manifest)
            drop_old(checkpoints, config.checkpoints.keep)
            reached.saving_s += perf_counter() - began
            return path

        if before is not None and progress.update == 0:
            log({"update": 0, **session.metrics(before, 0)})
        yield Journal(record, log, save, _estimate, session.watch.is_stopping)


async def _before(session: TrainingRun) -> Reports | None:
    if session.config.evaluate is None or not session.config.evaluate.before:
        return None
    return await session.evaluate(0)


async def _finish(
    session: TrainingRun,
    journal: Journal,
    progress: Progress,
    before: Reports | None,
    checkpoint: Path,
    began: float,
) -> Json | None:
    if session.watch.is_stopping():
        return None
    held_out, update = session.held_out, progress.update
    after, whole, paired = None, None, None
    if session.config.evaluate is not None:
        after = await session.evaluate(update)
        whole = held_out.together(after, update)
        journal.log({"update": update, **session.metrics(after, update)})
    if before is not None:
        paired = held_out.compare(update, *before)
    report = {
        "run": ".",
        "updates": update,
        "before": held_out.together(before, 0)["success"] if before else None,
        "after": whole["success"] if whole else None,
        "paired": paired,
        "panel": whole["panel"] if whole else None,
        "overlap": whole["overlap"] if whole else None,
        "checkpoint": str(checkpoint.relative_to(session.run.path)),
        "timings_s": _timings(session.run, progress, perf_counter() - began),
    }
    if len(session.worlds) > 1:
        report["by_env"] = summarise_parts(before, after, held_out, update)
    session.run.write_report(report)
    return report


def _estimate(tallies: Sequence[tuple[int, int]]) -> Mapping[str, float]:
    estimate = estimate_success([Tally(*tally) for tally in tallies])
    assert estimate is not None
    return estimate.to_json()


def _timings(run: Run, progress: Progress, wall_s: float) -> dict[str, float]:
    phases = ("sampling", "environment", "training", "sync", "idle")
    totals = dict.fromkeys(phases, 0.0)
    for row in run.metrics():
        for phase in phases:
            totals[phase] += row.get(f"time/{phase}_s", 0.0)
    timings = {"updates": progress.train_s, "saving": progress.saving_s, "total": wall_s}
    return {**totals, **timings}


def _training_set(part: PartConfig) -> str:
    panels = part.panel if isinstance(part.panel, str) else ",".join(part.panel)
    return f"{part.env}/{panels}"
