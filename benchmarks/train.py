"""What a GRPO update costs, beside TRL 1.16 on the same model, environment and groups.

    benchmarks/run_train                                           on a CPU, a 1 M parameter Qwen3
    python benchmarks/train.py --peer PYTHON --device cuda --model FOLDER --peer-sampler vllm

Three programs stay loaded side by side and make one update each in turn, so that noise hits
all alike; each makes one update first that is not counted. Both trainers play the same
TextCraft tasks in this process' way, with the same instructions, limits and group size, from
the same weights in the same type, and learn from the same reward.

- *practicum*: `train_online` with the `hf` policy; `train_practicum.py`.
- *trl*: `GRPOTrainer` with its environment interface; `train_trl.py` says how it was given the
  fastest settings there are.
- *bare loop*: forward, backward and AdamW on the packs of our trainer; `train_raw.py`. The
  floor for trained tokens/s, not a peer: it samples nothing.

CPU time is user and system time of the whole process, all threads. *End to end* counts sampled
tokens over the whole update. *Sampling* divides them by the time of the rollout, environment
included; *trained* divides the tokens of the trained sequences by the rest of the update.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from platform import python_version
from statistics import median
from typing import Any

from train_scene import HERE, Cost, Scene

OURS, PEER, BARE = "practicum", "trl", "bare loop"


class Program:
    """A child that makes one update for every line it is sent."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.versions: dict[str, str] = self._read()["versions"]

    def update(self) -> Cost:
        """Ask for one update and what it cost."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return Cost(**self._read())

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("a child process ended early; its error is above")
        message: dict[str, Any] = json.loads(line)
        return message


@contextmanager
def program(python: str, script: str, scene_path: Path, num_threads: int) -> Iterator[Program]:
    """Start a program and end it."""
    threads = {"OMP_NUM_THREADS": str(num_threads), "TOKENIZERS_PARALLELISM": "false"}
    process = subprocess.Popen(
        [python, str(HERE / script), str(scene_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **threads},
    )
    try:
        yield Program(process)
        assert process.stdin is not None
        process.stdin.close()
        process.wait(timeout=60)
    finally:
        process.kill()
        process.wait()


def print_table(costs: Mapping[str, list[Cost]]) -> None:
    """Medians over updates, and what each is of the peer's."""
    print(
        f"{'':<12}{'CPU s':>8}{'range':>16}{'wall s':>9}{'end to end':>12}{'sampling':>10}"
        f"{'trained':>10}{'sampled':>9}{'sequence':>10}"
    )
    for name, updates in costs.items():
        cpu = [cost.cpu_s for cost in updates]
        samples = name != BARE
        print(
            f"{name:<12}{median(cpu):>8.2f}{f'{min(cpu):.2f} - {max(cpu):.2f}':>16}"
            f"{median(cost.wall_s for cost in updates):>9.2f}"
            + (f"{end_to_end(updates):>12.0f}{sampling(updates):>10.0f}" if samples else " " * 22)
            + f"{trained(updates):>10.0f}"
            f"{median(cost.num_sampled for cost in updates):>9.0f}"
            f"{median(cost.num_sequence for cost in updates):>10.0f}"
        )
    print("\nper update; rates in tokens/s of wall time")


def print_ratios(costs: Mapping[str, list[Cost]]) -> None:
    """What the table is for."""
    ours = costs[OURS]
    if PEER in costs:
        peer = costs[PEER]
        # Per token: the two sides draw their own answers, which differ a little in length.
        saved = cpu_per_token(peer) / cpu_per_token(ours)
        print(f"beside {PEER}: {saved:.1f}x less CPU time per sampled token, ", end="")
        print(f"end to end {end_to_end(ours) / end_to_end(peer):.1f}x, ", end="")
        print(f"sampling {sampling(ours) / sampling(peer):.1f}x, ", end="")
        print(f"training {trained(ours) / trained(peer):.1f}x")
    if BARE in costs:
        share = trained(ours) / trained(costs[BARE])
        print(f"trained tokens/s: {share:.0%} of a bare forward/backward loop at the same packing")


def cpu_per_token(updates: list[Cost]) -> float:
    """CPU seconds for one sampled token, all of the update counted."""
    return median(cost.cpu_s / cost.num_sampled for cost in updates)


def end_to_end(updates: list[Cost]) -> float:
    """Sampled tokens per second of the whole update."""
    return median(cost.num_sampled / cost.wall_s for cost in updates)


def sampling(updates: list[Cost]) -> float:
    """Sampled tokens per second of the rollout."""
    return median(cost.num_sampled / cost.rollout_s for cost in updates)


def trained(updates: list[Cost]) -> float:
    """Sequence tokens per second of the training part."""
    return median(cost.num_sequence / cost.train_s for cost in updates)


def compare(scene: Scene, peer_python: str | None, num_updates: int, folder: Path) -> None:
    """Measure in turn, then print."""
    scene_path = folder / "scene.json"
    scene.save(scene_path)
    scripts = {OURS: (sys.executable, "train_practicum.py")}
    if peer_python is not None:
        scripts[PEER] = (peer_python, "train_trl.py")
    scripts[BARE] = (sys.executable, "train_raw.py")
    with ExitStack() as stack:
        programs = {
            name: stack.enter_context(program(python, script, scene_path, scene.num_threads))
            for name, (python, script) in scripts.items()
        }
        for name, running in programs.items():
            versions = ", ".join(f"{what} {which}" for what, which in running.versions.items())
            print(f"{name}: {versions}")
        print(
            f"{scene.num_groups} groups of {scene.group_size}, {scene.max_turns} turns of at most "
            f"{scene.max_new_tokens} tokens, {scene.device}, {scene.dtype}, {scene.num_threads} "
            f"thread(s); {num_updates} interleaved updates; Python {python_version()}\n",
            flush=True,
        )
        costs: dict[str, list[Cost]] = {name: [] for name in programs}
        for number in range(1, num_updates + 1):
            for name, running in programs.items():
                cost = running.update()
                costs[name].append(cost)
                print(f"update {number}: {name} {cost.wall_s:.2f} s", file=sys.stderr, flush=True)
    print_table(costs)
    print_ratios(costs)


def parse() -> tuple[Scene, str | None, int]:
    """The scene, the peer's interpreter and the number of updates."""
    ask = argparse.ArgumentParser(description="GRPO updates beside TRL.")
    ask.add_argument("--peer", help="Python with trl and practicum; without it there is no peer")
    ask.add_argument("--model", default="", help="a Hugging Face folder; default: the tiny Qwen3")
    ask.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    ask.add_argument(
        "--peer-sampler", default="transformers", help="transformers, continuous or vllm"
    )
    ask.add_argument("--groups", type=int, default=2)
    ask.add_argument("--group-size", type=int, default=8)
    ask.add_argument("--max-turns", type=int, default=8)
    ask.add_argument("--max-new-tokens", type=int, default=96)
    ask.add_argument("--max-context", type=int, default=2048)
    ask.add_argument("--pack-tokens", type=int, default=8192)
    ask.add_argument("--compile", action="store_true")
    ask.add_argument("--threads", type=int, default=1)
    ask.add_argument("--updates", type=int, default=5)
    args = ask.parse_args()
    scene = Scene(
        model=args.model,
        device=args.device,
        dtype="bfloat16" if args.device == "cuda" else "float32",
        num_threads=args.threads,
        num_groups=args.groups,
        group_size=args.group_size,
        max_turns=args.max_turns,
        max_new_tokens=args.max_new_tokens,
        max_context=args.max_context,
        pack_tokens=args.pack_tokens,
        compile=args.compile,
        sampler=args.peer_sampler,
    )
    return scene, args.peer, args.updates


def main() -> None:
    scene, peer_python, num_updates = parse()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if not scene.model:
            scene = replace(scene, model=str(folder / "model"))
            subprocess.run([sys.executable, str(HERE / "tiny_model.py"), scene.model], check=True)
        compare(scene, peer_python, num_updates, folder)


if __name__ == "__main__":
    main()
