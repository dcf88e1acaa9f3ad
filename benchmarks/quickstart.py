"""What the quickstart gains, seed by seed, beside as much time spent on more SFT.

    python benchmarks/quickstart.py [--seeds 0 1 2 3 4] [--controls 0 1 ...] [--out DIR]

For every seed: the quickstart's two steps. Then, for the seeds of `--controls` (all, unless
given), two controls from the same base model that train on demonstrations for as long as RL
took, evaluations aside: on the quickstart's own demonstrations, and on those of the whole
train panel, which RL never sees. All end on the same held-out tasks. Takes six minutes a seed
and ten for its controls on two idle cores; a folder that is there is not made again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

SFT, RL = "configs/sft_textcraft_cpu.yaml", "configs/rl_textcraft_cpu.yaml"
CONTROLS = {"same demonstrations": (), "all demonstrations": ("demonstrations.max_tasks=null",)}


def practicum(*arguments: str | Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "practicum", *map(str, arguments), "--json"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def train(kind: str, config: str, out: Path, *settings: str) -> dict[str, Any]:
    """Run `practicum sft` or `rl`, or read what an earlier run left."""
    report = out / "report.json"
    if report.exists():
        found: dict[str, Any] = json.loads(report.read_text())
        return found
    return practicum(kind, config, *settings, "--out", out)


def last_evaluation(run: Path) -> Path:
    return max((run / "evals").glob("update-*"))


def measure(seed: int, folder: Path, has_controls: bool) -> dict[str, Any]:
    """One row of the table."""
    start, learned = folder / f"{seed}-sft", folder / f"{seed}-rl"
    sft = train("sft", SFT, start, f"seed={seed}")
    rl = train("rl", RL, learned, f"seed={seed}", f"model.path={start}/checkpoints/latest")
    spent = rl["timings_s"]["updates"]
    row = {"seed": seed, "before": rl["before"], "after": rl["after"], "paired": rl["paired"]}
    row |= {"rl_s": spent, "all_s": sft["timings_s"]["total"] + rl["timings_s"]["total"]}
    held_out = practicum("rl", RL, "--dry-run")["evaluate"]
    for name, settings in CONTROLS.items() if has_controls else ():
        out = folder / f"{seed}-{name.split()[0]}"
        epochs = max(
            1, round(spent / _epoch_s(folder / f"{seed}-probe-{name.split()[0]}", settings))
        )
        control = train(
            "sft",
            SFT,
            out,
            f"seed={seed}",
            f"epochs={epochs}",
            *settings,
            f"evaluate={json.dumps(held_out | {'before': False})}",
        )
        against = practicum("compare", last_evaluation(out), last_evaluation(learned))
        row[name] = {"epochs": epochs, "sft_s": control["timings_s"]["updates"]}
        row[name] |= {"success": control["after"], "rl_against_it": against}
    return row


def _epoch_s(out: Path, settings: tuple[str, ...]) -> float:
    """Seconds an epoch takes, by a run of two."""
    seconds = train("sft", SFT, out, "epochs=2", *settings)["timings_s"]["updates"]
    return float(seconds) / 2


def show(rows: list[dict[str, Any]]) -> None:
    def percent(value: dict[str, float]) -> str:
        return f"{100 * value['mean']:.1f} [{100 * value['low']:.1f}, {100 * value['high']:.1f}]"

    print("| seed | before | after RL | gain | p | s | " + " | ".join(CONTROLS) + " |")
    print("| --- " * (6 + len(CONTROLS)) + "|")
    for row in rows:
        paired = row["paired"]
        cells = [
            str(row["seed"]),
            percent(row["before"]),
            percent(row["after"]),
            percent(paired["difference"]),
            f"{paired['p_value']:.2g}",
            f"{row['all_s']:.0f}",
            *(percent(row[name]["success"]) if name in row else "" for name in CONTROLS),
        ]
        print("| " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    ask = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    ask.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    ask.add_argument("--out", type=Path, default=Path("runs/quickstart_seeds"))
    ask.add_argument("--controls", type=int, nargs="*", help="seeds that get controls")
    args = ask.parse_args()
    controlled = args.seeds if args.controls is None else args.controls
    rows = []
    for seed in args.seeds:
        rows.append(measure(seed, args.out, seed in controlled))
        show(rows)
    (args.out / "seeds.json").write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
