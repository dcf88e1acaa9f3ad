"""What RL updates waste, and what each remedy saves: tokens and time per group that teaches.

    python benchmarks/rl_waste.py [--config FILE] [--updates 4] [key=value ...]

Plays and learns a few updates with all remedies, with each taken away, and with none. The
weights are those the config names, the first tasks the same. A group teaches if its rewards
differ. `slots busy` is the share of slots that hold a running episode while others sample.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

REMEDIES = {
    "end repeated refusals": ("limits.max_repeated_refusals=null",),
    "refill slots across updates": ("groups.carry_over=false",),
    "replace groups without variance": ("groups.max_per_update={groups}",),
}
"""Each with the settings that take it away."""


def run(config: str, updates: int, settings: list[str]) -> list[dict[str, Any]]:
    """The metrics of a short training."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        command = [sys.executable, "-m", "practicum", "rl", config, "evaluate=null"]
        command += [f"num_updates={updates}", *settings, "--json", "--out", str(out)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        lines = (out / "metrics.jsonl").read_text().splitlines()
    return [row for row in map(json.loads, lines) if row.get("update")]


def show(name: str, rows: list[dict[str, Any]]) -> None:
    def total(key: str) -> float:
        return float(sum(row.get(key, 0) for row in rows))

    taught = max(total("group/informative"), 1)
    busy = sum(row["slots/busy"] for row in rows) / len(rows)
    print(
        f"| {name} | {taught:.0f} of {total('group/count'):.0f} | {100 * busy:.0f} % | "
        f"{total('tokens/sampled') / taught:,.0f} | {total('time/total_s') / taught:.2f} |",
        flush=True,
    )


def main() -> None:
    ask = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    ask.add_argument("--config", default="configs/rl_textcraft_cpu.yaml")
    ask.add_argument("--updates", type=int, default=4)
    ask.add_argument("settings", nargs="*")
    args = ask.parse_args()
    command = [sys.executable, "-m", "practicum", "rl", args.config, *args.settings]
    plan = subprocess.run([*command, "--dry-run", "--json"], check=True, capture_output=True)
    groups = json.loads(plan.stdout)["groups"]["per_update"]
    without = {
        name: [text.format(groups=groups) for text in texts] for name, texts in REMEDIES.items()
    }
    print("| | groups that teach | slots busy | sampled tokens each | seconds each |")
    print("| --- | --- | --- | --- | --- |")
    show("all remedies", run(args.config, args.updates, args.settings))
    for name, settings in without.items():
        show(f"without: {name}", run(args.config, args.updates, [*args.settings, *settings]))
    none = [text for texts in without.values() for text in texts]
    show("none", run(args.config, args.updates, [*args.settings, *none]))


if __name__ == "__main__":
    main()
