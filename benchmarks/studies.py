"""Experiments with SmolLM2-135M on one GPU: several trainings at once, then paired tables.

    python benchmarks/studies.py --model SMOLLM2_DIR algorithms environments joint [--at-once 4]
    python benchmarks/studies.py --model SMOLLM2_DIR few [--minutes 22]
    python benchmarks/studies.py --model SMOLLM2_DIR all --at-once 5 --minutes 10
    python benchmarks/studies.py --tiny algorithms environments joint starts few all  # made small

- *algorithms*: GRPO, PPO, GiGPO and GRPO with a growing horizon, three seeds each, from one start.
- *environments*: SFT, then GRPO, in BabyAI and SQLGym.
- *joint*: three environments in one model, against a model each, at equal total episodes.
- *starts*: 100 games learned from in three ways, then GRPO, one seed, on dev: to choose for *few*.
- *few*: 100 games, four of ten without thoughts, then GRPO, three seeds; beside it more SFT.
- *all*: `train` in many arrangements, exchanged and made-up worlds, then GRPO, three seeds.

Every training has a folder of its own under --out, with its held-out episodes; one that is
finished is not made again, so a study can be cut off and taken up. --stop-after keeps further
trainings from starting. Seeds of an arm are samples of the same tasks: success is told per task
over all of them, and arms are compared task by task; --out gets a table STUDY.csv of every task's
successes and samples in each run. Trainings on one GPU go faster side by side under NVIDIA's
multi-process service (nvidia-cuda-mps-control -d).
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import math
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from side_by_side import Job, Runner
from tiny_model import save_tiny_model
from train_scene import find_packages_before_benchmarks

from practicum.evaluate.report import latest, tally_tasks
from practicum.evaluate.statistics import Tally, compare_paired, estimate_success
from practicum.store.run import Run

SEEDS = (1, 2, 3)
NUM_UPDATES = 16
GROUPS = 40
"""Of eight episodes, in an update."""
SLOT_TOKENS = 192 * 3072
"""Of a training's sampler, 13 GiB: four trainings fill a GPU of 140 GiB."""
LONG_GAMES = 6144
"""Tokens that the longest of `stepwise`'s games fit into, slips and all."""
LONG_SLOTS = 160
"""Of those, 21 GiB: three trainings fill it."""


def _worlds(pattern: str, first: int, last: int) -> str:
    return ", ".join(f"{pattern}{number}" for number in range(first, last + 1))


def _held_out(panel: str = "test") -> str:
    return f"evaluate={{panel: {panel}, samples: 2, before: false, max_repeated_refusals: 5}}"


def _room(tokens: int) -> tuple[str, ...]:
    slots = LONG_SLOTS if tokens == LONG_GAMES else min(192, SLOT_TOKENS // tokens)
    return (f"model.max_context={tokens}", "packing.pack_tokens=8192", f"sampler.slots={slots}")


def _sft(name: str, config: str, *settings: str, room: int = 2048, panel: str = "test") -> Job:
    shared = ("epochs=2", "batch_size=16", "optimizer.learning_rate=3e-4", "seed=1")
    return Job(name, "sft", config, (*_room(room), _held_out(panel), *shared, *settings))


def _rl(
    name: str, config: str, start: str, *settings: str, room: int = 2048, panel: str = "test"
) -> Job:
    budget = (
        f"num_updates={NUM_UPDATES}",
        "max_minutes=null",
        f"groups.per_update={GROUPS}",
        f"groups.max_per_update={GROUPS}",
        "algorithm.minibatches=2",
    )
    return Job(name, "rl", config, (*_room(room), _held_out(panel), *budget, *settings), start)


ALL_GAMES = (
    "demonstrations.max_tasks=null",
    "demonstrations.workers=4",
    "demonstrations.variants=1",
    "demonstrations.thoughts=1",
)
CRAFT_GAMES = f"[train, train~w1, {_worlds('invented~', 101, 102)}]"
CRAFT_TASKS = f"panel=[{_worlds('train~w', 1, 3)}, {_worlds('invented~', 1, 6)}]"
HORIZON = "[{update: 0, max_turns: 6}, {update: 5, max_turns: 12}, {update: 10, max_turns: 20}]"
TWENTY_TURNS = ("limits.max_turns=20",)
ARMS: dict[str, tuple[str, tuple[str, ...]]] = {
    "GRPO": ("rl_textcraft_smollm2", ("algorithm.negative_weight=1.0", *TWENTY_TURNS)),
    "PPO": ("rl_textcraft_ppo_smollm2", TWENTY_TURNS),
    "GiGPO": ("rl_textcraft_gigpo_smollm2", TWENTY_TURNS),
    "GRPO, growing horizon": (
        "rl_textcraft_horizon_smollm2",
        ("algorithm.negative_weight=1.0", f"horizon={HORIZON}"),
    ),
}
START = _sft(
    "start",
    "sft_textcraft_smollm2",
    f"demonstrations.panel={CRAFT_GAMES}",
    *ALL_GAMES,
    "demonstrations.script=expert",
    "demonstrations.slips=null",
)


def arm(name: str) -> list[Job]:
    config, settings = ARMS[name]
    stem = name.lower().replace(",", "").replace(" ", "-")
    tasks = (CRAFT_TASKS, "groups.variants=1", "difficulties=null", "curriculum=null")
    own = (*tasks, "limits.max_repeated_refusals=3", *settings)
    return [_rl(f"{stem}-{seed}", config, "start", *own, f"seed={seed}") for seed in SEEDS]


OTHERS = {
    "babyai": (
        _sft(
            "sft-babyai",
            "sft_babyai_smollm2",
            "demonstrations.panel=train-20",
            "demonstrations.max_tasks=600",
            room=3072,
            panel="test-20",
        ),
        _rl(
            "rl-babyai",
            "rl_babyai_smollm2",
            "sft-babyai",
            "panel=train-20",
            "seed=1",
            "sampler.slots=128",
            room=3072,
            panel="test-20",
        ),
    ),
    "sqlgym": (
        _sft("sft-sqlgym", "sft_sqlgym_smollm2", "demonstrations.max_tasks=null"),
        _rl("rl-sqlgym", "rl_sqlgym_smollm2", "sft-sqlgym", "seed=1"),
    ),
}
TWENTY = "evaluate: {panel: test-20}"
JOINT = (
    _sft(
        "sft-joint",
        "sft_joint_smollm2",
        f"mixture.envs.textcraft={{panel: {CRAFT_GAMES}}}",
        f"mixture.envs.babyai={{panel: train-20, max_tasks: 600, {TWENTY}}}",
        "mixture.envs.sqlgym={}",
        room=3072,
    ),
    _rl(
        "rl-joint",
        "rl_joint_smollm2",
        "sft-joint",
        f"mixture.envs.textcraft.panel={CRAFT_TASKS.removeprefix('panel=')}",
        "mixture.envs.babyai.panel=train-20",
        "mixture.envs.babyai.evaluate={panel: test-20}",
        "mixture.adaptive=null",
        f"groups.per_update={3 * GROUPS}",
        f"groups.max_per_update={3 * GROUPS}",
        "algorithm.minibatches=6",
        "sampler.slots=160",
        "seed=1",
        room=3072,
    ),
)


STARTS = {
    "every thought told": ("demonstrations.thoughts=1",),
    "half without thoughts": ("demonstrations.thoughts=0.5",),
    "a third of the updates": ("demonstrations.thoughts=1", "demonstrations.variants=5"),
}


def few_sft(name: str, seed: int, *settings: str, panel: str = "test") -> Job:
    own = (_held_out(panel), *settings, f"seed={seed}")
    return Job(name, "sft", "sft_textcraft_smollm2", own)


def few_rl(name: str, start: str, seed: int, minutes: float, panel: str = "test") -> Job:
    own = (_held_out(panel), f"max_minutes={minutes}", f"seed={seed}")
    return Job(name, "rl", "rl_textcraft_smollm2", own, start)


def starts_jobs(minutes: float) -> list[Job]:
    pairs = []
    for number, settings in enumerate(STARTS.values(), start=1):
        sft = few_sft(f"starts-{number}", 1, *settings, panel="dev")
        pairs += [sft, few_rl(f"starts-rl-{number}", sft.name, 1, minutes, panel="dev")]
    return pairs


def few_jobs(minutes: float, seeds: Sequence[int]) -> list[Job]:
    jobs = []
    for seed in seeds:
        sft = few_sft(f"few-{seed}", seed)
        jobs += [sft, few_rl(f"few-rl-{seed}", sft.name, seed, minutes)]
    first = seeds[0]
    control = few_sft("few-control", first)
    return [*jobs, replace(control, repeats=f"few-{first}", repeat_s=60 * minutes)]


BESIDE = {
    "renamed": ("renamed", ("samples=2",)),
    "deep": ("deep", ("samples=2",)),
    "invented": ("invented~201", ("samples=1", "max_tasks=240")),
    "greedy": ("test", ("samples=1", "sampling.temperature=0")),
}
"""How else the last model of `all` is judged: panel and settings."""


def all_jobs(minutes: float, seeds: Sequence[int]) -> list[Job]:
    real = f"train, {_worlds('train~v', 1, 9)}"
    games = f"[{real}, {_worlds('train~w', 1, 20)}, {_worlds('invented~', 101, 115)}]"
    # Nearly everywhere else a name is right as it is listed, and knowing the members of real kinds
    # (`planks`) by heart would be unlearned.
    tasks = f"panel=[{_worlds('train~v', 11, 18)}, {_worlds('train~w', 31, 33)}]"
    jobs = []
    for seed in seeds:
        sft = _sft(
            f"all-{seed}",
            "sft_textcraft_smollm2",
            f"demonstrations.panel={games}",
            *ALL_GAMES,
            "epochs=1",
            "batch_size=32",
            "optimizer.learning_rate=5e-4",
            f"seed={seed}",
            room=LONG_GAMES,
        )
        rl = Job(
            f"all-rl-{seed}",
            "rl",
            "rl_textcraft_smollm2",
            (
                *_room(LONG_GAMES),
                _held_out(),
                tasks,
                "difficulties=[depth 2, depth 3, depth 4]",
                "groups.variants=1",
                # Most groups succeed whole: more of them are played for as many that teach, what
                # fails weighs as much as what goes well, and a mistake on the way is no example.
                "groups.max_per_update=64",
                "algorithm.minibatches=2",
                "algorithm.negative_weight=1.0",
                "algorithm.refused_weight=0",
                "limits.max_turns=50",
                f"max_minutes={minutes}",
                f"seed={seed}",
            ),
            sft.name,
        )
        room = (f"hf.max_context={LONG_GAMES}", f"concurrency={LONG_SLOTS // 2}")
        beside = [
            Job(f"all-{name}-{seed}", "eval", panel, (*room, *sampling), rl.name)
            for name, (panel, sampling) in BESIDE.items()
        ]
        jobs += [sft, rl, *beside]
    return jobs


def jobs_of(studies: Iterable[str], minutes: float, seeds: Sequence[int]) -> list[Job]:
    """All trainings of the studies, the longest first; what two of them share comes once."""
    wanted: dict[str, list[Job]] = {
        "joint": [*JOINT, START, arm("GRPO")[0], *OTHERS["babyai"], *OTHERS["sqlgym"]],
        "algorithms": [START, *(job for name in ARMS for job in arm(name))],
        "environments": [*OTHERS["babyai"], *OTHERS["sqlgym"]],
        "starts": starts_jobs(minutes),
        "few": few_jobs(minutes, seeds),
        "all": all_jobs(minutes, seeds),
    }
    chosen = [job for name, jobs in wanted.items() if name in studies for job in jobs]
    return list({job.name: job for job in chosen}.values())


def last_evaluations(run: Path) -> dict[str, Path]:
    """The folders of a training's last evaluation, by environment; one alone has no name."""
    if (run / "episodes.jsonl").exists() and not (run / "evals").exists():
        return {"": run}
    last = max((run / "evals").glob("update-*"))
    parts = {path.parent.name: path.parent for path in last.glob("*/config.json")}
    return parts or {"": last}


def last_evaluation(run: Path, env: str) -> Run:
    """A training's last evaluation; of `env` where it has several."""
    parts = last_evaluations(run)
    return Run.open(parts.get(env) or parts[""])


def count_broken(run: Path, env: str) -> int:
    """Episodes without a judgement: what is left is not the panel any more."""
    played = latest(last_evaluation(run, env).episodes())
    return sum(episode.is_broken for episode in played.values())


def tallies(runs: Sequence[Path], env: str = "") -> dict[str, Tally]:
    """Success per task, the seeds' samples together; of `env` where a run has several."""
    found: dict[str, Tally] = {}
    for path in runs:
        run = last_evaluation(path, env)
        for task, new in tally_tasks(run.tasks(), latest(run.episodes()).values()).items():
            old = found.get(task, Tally(0, 0))
            found[task] = Tally(old.successes + new.successes, old.samples + new.samples)
    return found


def percent(mean: float, low: float, high: float, sign: str = "") -> str:
    return f"{100 * mean:{sign}.1f} [{100 * low:{sign}.1f}, {100 * high:{sign}.1f}]"


def success(measured: dict[str, Tally]) -> str:
    estimate = estimate_success(list(measured.values()))
    return percent(estimate.mean, estimate.low, estimate.high) if estimate else "–"


def against(measured: dict[str, Tally], other: dict[str, Tally]) -> str:
    """The difference, paired; p; the smallest difference that would have been seen."""
    common = [task for task in measured if task in other]
    result = compare_paired([other[t] for t in common], [measured[t] for t in common])
    gap = result.difference
    return (
        f"{percent(gap.mean, gap.low, gap.high, '+')}, p = {result.p_value:.2g}, "
        f"least {100 * result.minimum_detectable:.1f}"
    )


Row = tuple[str, Sequence[str], str, Sequence[str]]
"""What it is, its trainings, which of their environments, and whom they are compared with."""


def rows_of(study: str, seeds: Sequence[int]) -> list[Row]:
    def each(stem: str) -> list[str]:
        return [f"{stem}-{seed}" for seed in seeds]

    stems = {name: [job.name for job in arm(name)] for name in ARMS}
    if study == "algorithms":
        gains = [(f"{name} over start", stems[name], "", ["start"]) for name in ARMS]
        others = [name for name in ARMS if name != "GRPO"]
        return [
            *gains,
            *((f"{name} over GRPO", stems[name], "", stems["GRPO"]) for name in others),
        ]
    if study == "environments":
        return [(f"{env}, GRPO over SFT", [f"rl-{env}"], "", [f"sft-{env}"]) for env in OTHERS]
    if study == "joint":
        single = {"textcraft": stems["GRPO"][:1], **{env: [f"rl-{env}"] for env in OTHERS}}
        return [
            *((f"{env}, joint over single", ["rl-joint"], env, one) for env, one in single.items()),
            *((f"{env}, joint, GRPO over SFT", ["rl-joint"], env, ["sft-joint"]) for env in single),
        ]
    if study == "starts":
        names = enumerate(STARTS, start=1)
        return [
            (f"{name}, GRPO over SFT", [f"starts-rl-{n}"], "", [f"starts-{n}"]) for n, name in names
        ]
    one = [(f"seed {s}, GRPO over SFT", [f"{study}-rl-{s}"], "", [f"{study}-{s}"]) for s in seeds]
    rows: list[Row] = [*one, ("all seeds", each(f"{study}-rl"), "", each(study))]
    if study == "few":
        first = seeds[0]
        more = [
            (f"seed {first}, more SFT over SFT", ["few-control"], "", [f"few-{first}"]),
            (f"seed {first}, GRPO over more SFT", [f"few-rl-{first}"], "", ["few-control"]),
        ]
        return [*rows, *more]
    return [*rows, *((name, each(f"all-{name}"), "", []) for name in BESIDE)]


def keep_tasks(study: str, runner: Runner, seeds: Sequence[int]) -> None:
    """Write down each task's successes and samples in all runs that are through."""
    rows: dict[str, dict[str, str]] = {}
    columns = {"task": None}
    for _, runs, env, others in rows_of(study, seeds):
        for name in filter(runner.finished, (*runs, *others)):
            columns[name] = None
            for task, tally in tallies([runner.out / name], env).items():
                row = rows.setdefault(task, {"task": task})
                row[name] = f"{tally.successes}/{tally.samples}"
    with (runner.out / f"{study}.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, list(columns), restval="", lineterminator="\n")
        table.writeheader()
        table.writerows(rows.values())


def show(study: str, runner: Runner, seeds: Sequence[int]) -> None:
    print(f"\n## {study}\n\n| | tasks | first, % | second, % | difference, points |")
    print("| --- " * 5 + "|")
    for name, runs, env, other_runs in rows_of(study, seeds):
        missing = [run for run in (*runs, *other_runs) if not runner.finished(run)]
        if missing:
            print(f"| {name} | – | not finished: {', '.join(missing)} | – | – |")
            continue
        broken = {run: count_broken(runner.out / run, env) for run in (*runs, *other_runs)}
        if any(broken.values()):
            parts = ", ".join(f"{run} ({count} episodes)" for run, count in broken.items() if count)
            print(f"| {name} | – | broken, delete and run again: {parts} | – | – |")
            continue
        measured = tallies([runner.out / run for run in runs], env)
        cells = [name, str(len(measured)), success(measured), "–", "–"]
        if other_runs:
            other = tallies([runner.out / run for run in other_runs], env)
            cells[3:] = [success(other), against(measured, other)]
        print(f"| {' | '.join(cells)} |", flush=True)


def main() -> None:
    names = ("algorithms", "environments", "joint", "starts", "few", "all")
    ask = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    ask.add_argument("--model", type=Path, help="SmolLM2-135M-Instruct, a Hugging Face folder")
    ask.add_argument("--tiny", action="store_true", help="a million random weights, two updates")
    ask.add_argument("--out", type=Path, default=Path("runs/studies"))
    ask.add_argument("--at-once", type=int, default=4)
    minutes = "of RL, in `starts`, `few` and `all`"
    ask.add_argument("--minutes", type=float, default=20, help=minutes)
    ask.add_argument("--seeds", type=int, nargs="+", default=SEEDS, help="of `few` and `all`")
    ask.add_argument("--stop-after", type=float, default=math.inf, help="seconds")
    ask.add_argument("studies", nargs="+", choices=names)
    args = ask.parse_args()
    if args.tiny == bool(args.model):
        ask.error("give either --model or --tiny")
    args.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        if args.tiny:
            save_tiny_model(Path(scratch))
        model = args.model or Path(scratch)
        runner = Runner(model, args.out, args.at_once, args.stop_after, args.tiny)
        asyncio.run(runner.run_all(jobs_of(args.studies, args.minutes, args.seeds)))
    for study in args.studies:
        show(study, runner, args.seeds)
        keep_tasks(study, runner, args.seeds)


if __name__ == "__main__":
    find_packages_before_benchmarks()
    main()
