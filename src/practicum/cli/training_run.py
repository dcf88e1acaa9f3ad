"""A training run from end to end: evaluate, train, evaluate again, compare, report.

The loop itself is `train/`, judging is `evaluate/`; this is where the two meet.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from practicum.agents.chat import ChatAgent
from practicum.agents.formats import get_format
from practicum.config.eval import EvalConfig
from practicum.config.train import RlConfig, SftConfig, TrainingConfig
from practicum.core.agent import Sampling
from practicum.core.env import Environment, Guided, Milestoned
from practicum.core.errors import ConfigError
from practicum.core.reward import RewardFn
from practicum.core.task import Task
from practicum.data.demonstrations import load_demonstrations
from practicum.data.draw import draw_tasks, of_difficulties, with_variants
from practicum.envs.registry import load_env
from practicum.evaluate.compare import compare_runs
from practicum.evaluate.runner import prepare, resume_run, run_evaluation, start_run
from practicum.evaluate.statistics import Tally, estimate_success
from practicum.policies.local.engine import EngineOptions
from practicum.policies.local.policy import HfPolicy
from practicum.policies.local.weights import find_model, load_model
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
from practicum.train.collect import OpenGroup
from practicum.train.loop import Evaluate, Journal, Progress, train_online
from practicum.train.sft import fitting, num_updates, train_supervised
from practicum.train.trainer import LocalTrainer, Metrics, prepare_model

Json = dict[str, Any]
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
    environment: Environment
    tasks: Sequence[Task]
    policy: HfPolicy
    watch: Watch

    async def evaluate(self, update: int) -> Json:
        """Evaluate the weights after so many updates; what is on record is kept."""
        config, held_out = self.config, self.config.evaluate
        assert held_out is not None
        wanted = EvalConfig(
            env=config.env,
            options=config.options,
            policy=f"hf:{config.model.path}",
            panel=held_out.panel,
            samples=held_out.samples,
            seed=held_out.seed,
            format=config.format,
            concurrency=config.sampler.slots,
            max_tasks=held_out.max_tasks,
            trained_on=str(self.run.path / MANIFEST_FILE),
            sampling=config.sampling.model_copy(update={"temperature": held_out.temperature}),
            limits=config.limits.model_copy(
                update={
                    "max_turns": held_out.max_turns,
                    "max_repeated_refusals": held_out.max_repeated_refusals,
                }
            ),
        )
        evaluation = prepare(wanted, self.policy)
        path = self.evaluation_path(update)
        run = resume_run(evaluation, path) if path.exists() else start_run(evaluation, path)
        report = await run_evaluation(evaluation, run, lambda _: None)
        self.watch.on_evaluation("before" if update == 0 else f"update {update}", report)
        return report

    def evaluation_path(self, update: int) -> Path:
        """The run folder of an evaluation."""
        return self.run.path / "evals" / f"update-{update:06d}"

    def table(self, sampling: Sampling) -> Table:
        """Where training episodes are played."""
        config = self.config
        limits = Limits(
            config.limits.max_turns or self.environment.max_turns,
            config.limits.turn_timeout_s,
            config.limits.answer_timeout_s,
            config.limits.max_repeated_refusals,
        )
        agent = ChatAgent(self.environment, get_format(config.format), self.policy, sampling)
        judge: RewardFn = judge_outcome
        if isinstance(config, RlConfig) and config.dense > 0:
            judge = _dense(self.environment, config)
        return Table(self.environment, agent, judge, limits, Slots(config.sampler.slots))

    def note_training_set(
        self, name: str, task_ids: Iterable[str], families: Iterable[str]
    ) -> None:
        """Write down what the model will have been trained on, earlier trainings included."""
        earlier = read_manifest(find_model(self.config.model.path))
        manifest = training_manifest(name, task_ids, families, earlier)
        write_atomically(self.run.path / MANIFEST_FILE, to_text(manifest))


def _dense(environment: Environment, config: RlConfig) -> RewardFn:
    """Pay turns by milestones, or by whoever can say how far the goal is."""
    if isinstance(environment, Milestoned):
        return judge_milestones(judge_outcome, config.dense)
    if not isinstance(environment, Guided):
        raise ConfigError(
            f"dense={config.dense:g} needs milestones or an expert that counts the turns left, "
            f"and {environment.id} has neither: leave dense out"
        )
    return judge_progress(judge_outcome, environment, config.dense)


async def run_rl(
    config: RlConfig, path: Path, watch: Watch, *, is_resumed: bool = False
) -> Json | None:
    """Train with GRPO; returns the report that is also written, or None if asked to stop."""
    began = perf_counter()
    session = _open(config, "rl", path, watch, is_resumed, lambda env: _rl_tasks(env, config))
    with session.run.exclusive():
        return await _train_rl(config, session, began, is_resumed)


async def _train_rl(
    config: RlConfig, session: TrainingRun, began: float, is_resumed: bool
) -> Json | None:
    watch = session.watch
    tasks = session.tasks
    name = _training_set(config.env, config.panel)
    session.note_training_set(name, (t.id for t in tasks), (t.family for t in tasks))
    watch.on_start(config.num_updates)
    before = await _before(session)
    reference = deepcopy(session.policy.model.network) if config.algorithm.kl > 0 else None
    trainer = _trainer(
        session,
        config.num_updates,
        config.sampling.temperature,
        config.algorithm.value_rate(config.optimizer.learning_rate),
    )
    progress = _take_up(session, trainer) if is_resumed else Progress()
    sampling = Sampling(config.sampling.temperature, 1.0, config.sampling.max_tokens)
    with _journal(session, trainer, progress, before) as journal:
        checkpoint = await train_online(
            config,
            session.table(sampling),
            tasks,
            session.policy,
            trainer,
            _evaluator(session),
            journal,
            progress,
            reference,
        )
        return await _finish(session, journal, progress, before, checkpoint, began)


async def run_sft(
    config: SftConfig, path: Path, watch: Watch, *, is_resumed: bool = False
) -> Json | None:
    """Train on demonstrations; returns the report that is also written, or None if stopped."""
    began = perf_counter()
    session = _open(config, "sft", path, watch, is_resumed, lambda env: _demo_tasks(env, config))
    with session.run.exclusive():
        return await _train_sft(config, session, began, is_resumed)


async def _train_sft(
    config: SftConfig, session: TrainingRun, began: float, is_resumed: bool
) -> Json | None:
    watch = session.watch
    shown = await load_demonstrations(
        config, session.environment, session.tasks, session.policy.renderer
    )
    samples = fitting([written_sample(*sample) for sample in shown.samples], config)
    wanted = config.demonstrations
    name = wanted.path or _training_set(config.env, wanted.panel)
    session.note_training_set(name, shown.task_ids, shown.families)
    total = num_updates(config, len(samples))
    watch.on_start(total)
    before = await _before(session)
    trainer = _trainer(session, total, 1.0)
    progress = _take_up(session, trainer) if is_resumed else Progress()
    with _journal(session, trainer, progress, before) as journal:
        checkpoint = await train_supervised(
            config, samples, trainer, _evaluator(session), journal, progress
        )
        return await _finish(session, journal, progress, before, checkpoint, began)


def _evaluator(session: TrainingRun) -> Evaluate | None:
    if session.config.evaluate is None:
        return None

    async def evaluate(update: int) -> Mapping[str, float]:
        session.policy.engine.resume(weights_changed=True)
        return _as_metrics(await session.evaluate(update))

    return evaluate


def _open(
    config: TrainingConfig,
    kind: str,
    path: Path,
    watch: Watch,
    is_resumed: bool,
    choose: Callable[[Environment], Sequence[Task]],
) -> TrainingRun:
    import torch

    if config.threads is not None:
        torch.set_num_threads(config.threads)
    environment = load_env(config.env, **config.options)
    get_format(config.format)
    if config.evaluate is not None:
        environment.panel(config.evaluate.panel)
    tasks = choose(environment)
    model = load_model(config.model.path, device=config.model.device, dtype=config.model.dtype)
    model = prepare_model(model, config.model)
    policy = HfPolicy(
        model,
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
        run = Run.create(path, kind, {"config": settings}, tasks)
    return TrainingRun(config, run, environment, tasks, policy, watch)


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


def _trainer(
    session: TrainingRun,
    num_updates: int,
    temperature: float,
    value_learning_rate: float | None = None,
) -> LocalTrainer:
    config = session.config
    return LocalTrainer(
        session.policy.model,
        config.optimizer,
        config.packing,
        num_updates=num_updates,
        gradient_checkpointing=config.model.gradient_checkpointing,
        compile_model=config.model.compile,
        temperature=temperature,
        value_learning_rate=value_learning_rate,
    )


def _take_up(session: TrainingRun, trainer: LocalTrainer) -> Progress:
    """Go back to the newest checkpoint: weights, optimiser, cursor and the run's files."""
    folder = session.run.path
    checkpoint = latest_checkpoint(folder / "checkpoints")
    saved: Json = {"files": {}} if checkpoint is None else read_progress(checkpoint)
    for name in GROWING_FILES:
        if (folder / name).exists():
            os.truncate(folder / name, saved["files"].get(name, 0))
    if checkpoint is None:
        return Progress()
    trainer.load_state(checkpoint / STATE_FILE)
    session.policy.engine.resume(weights_changed=True)
    groups = _open_groups(session, saved["open_groups"])
    return Progress(saved["update"], saved["cursor"], saved["train_s"], groups)


def _open_groups(session: TrainingRun, saved: Sequence[Json]) -> list[OpenGroup]:
    """Half-finished groups of a checkpoint, their episodes read from the run's file."""
    wanted = {episode_id for group in saved for episode_id in group["episodes"].values()}
    episodes = {e.id: e for e in session.run.episodes() if e.id in wanted} if wanted else {}
    tasks = {task.id: task for task in session.tasks}
    return [
        OpenGroup(
            group["number"],
            tasks[group["task_id"]],
            group["seed"],
            {int(sample): episodes[e] for sample, e in group["episodes"].items()},
        )
        for group in saved
    ]


@contextmanager
def _journal(
    session: TrainingRun, trainer: LocalTrainer, progress: Progress, before: Json | None
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

        def log(metrics: Metrics) -> None:
            measure(metrics)
            track(metrics)
            session.watch.on_metrics(metrics)

        def save(reached: Progress) -> Path:
            sizes = {name: (run.path / name).stat().st_size for name in GROWING_FILES}
            manifest = read_manifest(run.path)
            assert manifest is not None
            saved = {**reached.to_json(), "files": sizes}
            path = write_checkpoint(checkpoints, trainer, saved, manifest)
            drop_old(checkpoints, config.checkpoints.keep)
            return path

        if before is not None and progress.update == 0:
            log({"update": 0, **_as_metrics(before)})
        yield Journal(record, log, save, _estimate, session.watch.is_stopping)


async def _before(session: TrainingRun) -> Json | None:
    if session.config.evaluate is None or not session.config.evaluate.before:
        return None
    return await session.evaluate(0)


async def _finish(
    session: TrainingRun,
    journal: Journal,
    progress: Progress,
    before: Json | None,
    checkpoint: Path,
    began: float,
) -> Json | None:
    if session.watch.is_stopping():
        return None
    after, paired = None, None
    if session.config.evaluate is not None:
        session.policy.engine.resume(weights_changed=True)
        after = await session.evaluate(progress.update)
        journal.log({"update": progress.update, **_as_metrics(after)})
    if before is not None:
        paths = session.evaluation_path(0), session.evaluation_path(progress.update)
        paired = {k: v for k, v in compare_runs(*paths).items() if k != "runs"}
    report = {
        "run": ".",
        "updates": progress.update,
        "before": before["success"] if before else None,
        "after": after["success"] if after else None,
        "paired": paired,
        "panel": after["panel"] if after else None,
        "overlap": after["overlap"] if after else None,
        "checkpoint": str(checkpoint.relative_to(session.run.path)),
        "timings_s": _timings(session.run, progress, perf_counter() - began),
    }
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
    return {**totals, "updates": progress.train_s, "total": wall_s}


def _as_metrics(report: Json) -> dict[str, float]:
    success = report["success"]
    if success["mean"] is None:
        return {}
    return {
        f"eval/{k}": success[v] for k, v in (("success", "mean"), ("low", "low"), ("high", "high"))
    }


def _tasks_of(
    environment: Environment, panels: str | list[str], difficulties: list[str] | None
) -> list[Task]:
    names = [panels] if isinstance(panels, str) else panels
    tasks = [task for name in names for task in environment.panel(name)]
    return tasks if difficulties is None else of_difficulties(tasks, difficulties)


def _training_set(env: str, panels: str | list[str]) -> str:
    return f"{env}/{panels}" if isinstance(panels, str) else f"{env}/{','.join(panels)}"


def _rl_tasks(environment: Environment, config: RlConfig) -> list[Task]:
    if config.dense > 0:
        _dense(environment, config)  # refuse now, not after the first evaluation
    tasks = _tasks_of(environment, config.panel, config.difficulties)
    drawn = draw_tasks(tasks, config.max_tasks, config.seed)
    return with_variants(environment, drawn, config.groups.variants)


def _demo_tasks(environment: Environment, config: SftConfig) -> list[Task]:
    wanted = config.demonstrations
    if wanted.source == "table":
        return []
    tasks = _tasks_of(environment, wanted.panel, wanted.difficulties)
    drawn = draw_tasks(tasks, wanted.max_tasks, config.seed)
    return with_variants(environment, drawn, wanted.variants)
