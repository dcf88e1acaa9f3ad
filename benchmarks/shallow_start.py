"""A start that knows one step only: what outcomes teach it, and what dense rewards do.

    python benchmarks/shallow_start.py [--updates 24] [--epochs 2] [--out DIR]

The model that ships is fine-tuned on games of depth 1 until it hardly ever crafts anything on
the way to something else; more epochs leave less of that. From there, on tasks of depth 2 and
3: GRPO on outcomes alone, and REINFORCE++ with dense rewards. Both end on dev, paired with
their start; the two train at once, with one thread each. Some ten minutes on two cores.
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from quickstart import RL, SFT, train

FIRST_GROUPS = 64
SHALLOW = (
    "demonstrations.difficulties=[depth 1]",
    "demonstrations.max_tasks=200",
    "optimizer.learning_rate=6e-4",
    "threads=1",
)
DEEPER = (
    "difficulties=[depth 2, depth 3]",
    "curriculum=null",
    "evaluate.panel=dev",
    "threads=1",
)
ARMS: dict[str, tuple[str, ...]] = {
    "GRPO, outcomes": (),
    "REINFORCE++, dense": ("algorithm={name: reinforce_pp, minibatches: 2}", "dense=1.0"),
}


def informative_among_first(run: Path) -> tuple[int, int]:
    """Groups whose outcomes differ, and all, until there were enough of them."""
    informative = count = 0
    for line in (run / "metrics.jsonl").read_text().splitlines():
        row: dict[str, Any] = json.loads(line)
        if "group/count" in row and count < FIRST_GROUPS:
            informative += row["group/informative"]
            count += row["group/count"]
    return informative, count


def main() -> None:
    ask = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    ask.add_argument("--updates", type=int, default=24)
    ask.add_argument("--epochs", type=int, default=2, help="of the start, on games of depth 1")
    ask.add_argument("--out", type=Path, default=Path("runs/shallow_start"))
    args = ask.parse_args()
    start = args.out / "sft"
    train("sft", SFT, start, *SHALLOW, f"epochs={args.epochs}")
    begin = (f"model.path={start}/checkpoints/latest", f"num_updates={args.updates}")
    with ThreadPoolExecutor() as both:
        reports = both.map(
            lambda arm: train("rl", RL, args.out / f"arm-{arm[0]}", *begin, *DEEPER, *arm[1]),
            enumerate(ARMS.values()),
        )
    print("| | groups that differ, of the first | before | after | gain | p |")
    print("| --- " * 6 + "|")
    for number, (name, report) in enumerate(zip(ARMS, reports, strict=True)):
        informative, count = informative_among_first(args.out / f"arm-{number}")
        paired = report["paired"]
        gain = paired["difference"]
        cells = (
            f"{informative} of {count}",
            f"{100 * report['before']['mean']:.1f}",
            f"{100 * report['after']['mean']:.1f}",
            f"{100 * gain['mean']:.1f} [{100 * gain['low']:.1f}, {100 * gain['high']:.1f}]",
            f"{paired['p_value']:.2g}",
        )
        print("| " + " | ".join((name, *cells)) + " |")


if __name__ == "__main__":
    main()
