"""Overlap against taking turns: updates an hour, and success after as many minutes.

    python benchmarks/overlap.py [key=value ...] [--config FILE] [--minutes 10] [--bounds 1 2] \\
        [--seeds 1 2 3] [--out runs/overlap]

Each way of training starts from the weights the config names and gets the same time. Means are
over all updates but the first, which compiles and captures. `take turns` plays and ends all
groups of an update before it learns; `carry over` keeps groups under way and stops sampling to
learn; `overlap N` samples with a copy of the weights while it learns, at most N updates behind.
Final success is on the config's held-out panel. Each row has its own folder under --out, for
`practicum compare`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

TAKE_TURNS = {"take turns": ["groups.carry_over=false"]}
CARRY_OVER = {"carry over": ["groups.carry_over=true"]}


def train(config: str, out: Path, settings: list[str]) -> tuple[dict[str, Any], list[Any]]:
    """The report of a training and its metrics, update by update; a finished one is read."""
    if not (out / "report.json").exists():
        command = [sys.executable, "-m", "practicum", "rl", config, *settings, "--out", str(out)]
        subprocess.run([*command, "--json"], check=True, stdout=subprocess.DEVNULL)
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return json.loads((out / "report.json").read_text()), [r for r in rows if "time/total_s" in r]


def show(name: str, report: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    def mean(key: str) -> float:
        return float(sum(row.get(key, 0.0) for row in rows[1:])) / max(1, len(rows) - 1)

    seconds = mean("time/total_s")
    after = report["after"]
    success = "not evaluated"
    if after is not None:
        low, high = 100 * after["low"], 100 * after["high"]
        success = f"{100 * after['mean']:.1f} [{low:.1f}, {high:.1f}]"
    print(
        f"| {name} | {report['updates']} | {seconds:.2f} | {3600 / seconds:,.0f} | "
        f"{mean('group/informative'):.1f} | {mean('tokens/sampled_per_s'):,.0f} | "
        f"{mean('time/training_s'):.2f} | {mean('time/idle_s'):.2f} | "
        f"{mean('staleness/mean'):.2f} | {success} |",
        flush=True,
    )


def main() -> None:
    ask = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    ask.add_argument("--config", default="configs/rl_textcraft_smollm2.yaml")
    ask.add_argument("--minutes", type=float, default=10)
    ask.add_argument("--bounds", type=int, nargs="+", default=[1, 2])
    ask.add_argument("--seeds", type=int, nargs="+", default=[1])
    ask.add_argument("--out", type=Path, default=Path("runs/overlap"))
    ask.add_argument("settings", nargs="*")
    args = ask.parse_intermixed_args()
    overlaps = {
        f"overlap {bound}": ["groups.carry_over=false", f"overlap.max_staleness={bound}"]
        for bound in args.bounds
    }
    ways = TAKE_TURNS | overlaps | CARRY_OVER
    print(
        "| | updates | s an update | updates an hour | groups that teach | sampled tokens a s | "
        "training s | trainer waits s | updates behind | success after, % |"
    )
    print("| --- " * 10 + "|")
    for seed in args.seeds:
        for name, own in ways.items():
            settings = [f"max_minutes={args.minutes}", f"seed={seed}", *args.settings, *own]
            folder = args.out / f"{name.replace(' ', '-')}-seed{seed}"
            show(f"{name}, seed {seed}", *train(args.config, folder, settings))


if __name__ == "__main__":
    main()
