"""Writes a folder that TRL trains from: tables, settings, and a script that starts it.

```
train.jsonl  held_out.jsonl   tasks with the instructions in front of them
trl.yaml                      the model, the worlds, the arguments of TRL's GRPOConfig
training.json                 what the model will have been trained on, for the overlap check
launch                        starts the training; settings on top of it as arguments
```
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml

from practicum.adapters.exporting import (
    Exported,
    TaskSet,
    compare_panels,
    load_task_sets,
    manifest_of,
    write_script,
)
from practicum.adapters.trl.environment import make_rows
from practicum.adapters.trl.settings import trl_settings
from practicum.agents.format import system_text
from practicum.agents.formats import get_format
from practicum.config.train import RlConfig
from practicum.core.errors import ConfigError
from practicum.core.message import Message
from practicum.core.task import Task
from practicum.policies.local.weights import find_model
from practicum.policies.rendering import Renderer
from practicum.store.files import to_text, write_atomically
from practicum.train.checkpoint import MANIFEST_FILE

SETTINGS_FILE = "trl.yaml"
TRAIN_FILE = "train.jsonl"
HELD_OUT_FILE = "held_out.jsonl"
HELD_OUT = "held out"
NUM_OPEN = 16
"""Environments opened at once to see what they show first."""

HEADER = "# For TRL 1.16; written by `practicum export trl`.\n"
LAUNCH = """\
#!/usr/bin/env bash
# Trains with TRL: ./launch [key=value ...], as in grpo.use_vllm=true
# On several GPUs: LAUNCHER='accelerate launch --num_processes 8' ./launch
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
exec ${LAUNCHER:-${PYTHON:-python}} -m practicum.adapters.trl.run "$here" "$@"
"""


def export(config: RlConfig, out: Path) -> Exported:
    """Write the folder; what TRL would ignore or cannot do is a `ConfigError`."""
    # Refuse before tasks are looked at, which can take minutes; lengths are checked below.
    trl_settings(config, 1)
    model = find_model(config.model.path)
    sets = load_task_sets(config)
    longest = asyncio.run(_longest_prompt(config, sets, Renderer.load(model)))
    grpo = trl_settings(config, longest)
    if config.model.device == "cpu":
        grpo["use_cpu"] = True
    settings = {
        "model": {
            "path": str(model.resolve()),
            "dtype": config.model.dtype,
            "lora": config.model.lora.model_dump() if config.model.lora else None,
        },
        "worlds": _worlds(config, sets),
        "answer_tokens": config.sampling.max_tokens,
        "threads": config.threads,
        "grpo": grpo,
    }
    write_atomically(out / SETTINGS_FILE, HEADER + yaml.safe_dump(settings, sort_keys=False))
    _write_rows(out / TRAIN_FILE, config, sets, is_held_out=False)
    if config.evaluate is not None:
        _write_rows(out / HELD_OUT_FILE, config, sets, is_held_out=True)
    write_atomically(out / MANIFEST_FILE, to_text(manifest_of(model, sets, "TRL")))
    launch = write_script(out / "launch", LAUNCH)
    return Exported(sorted(out.iterdir()), launch, compare_panels(sets))


def _worlds(config: RlConfig, sets: Sequence[TaskSet]) -> dict[str, Any]:
    """Those of training and, with limits of their own, those of the evaluation."""
    worlds = {}
    for one in sets:
        limits = (one.part.limits or config.limits).model_dump(exclude_unset=True)
        world = {"env": one.part.env, "options": one.part.options, "format": config.format}
        worlds[one.name] = {**world, "limits": limits}
        if config.evaluate is not None:
            changes = {
                "max_turns": one.part.evaluate.max_turns or config.evaluate.max_turns,
                "max_repeated_refusals": config.evaluate.max_repeated_refusals,
            }
            worlds[f"{one.name}, {HELD_OUT}"] = {**world, "limits": limits | changes}
    return worlds


def _write_rows(
    path: Path, config: RlConfig, sets: Sequence[TaskSet], *, is_held_out: bool
) -> None:
    lines: list[str] = []
    for one in sets:
        system = system_text(one.environment, get_format(config.format))
        name = f"{one.name}, {HELD_OUT}" if is_held_out else one.name
        rows = make_rows(system, one.held_out if is_held_out else one.train)
        lines += [json.dumps({**row, "environment": name}, ensure_ascii=False) for row in rows]
    write_atomically(path, "\n".join(lines) + "\n")


async def _longest_prompt(config: RlConfig, sets: Sequence[TaskSet], renderer: Renderer) -> int:
    """Tokens of the longest prompt; every task is opened once to see what it shows first."""
    slots = asyncio.Semaphore(NUM_OPEN)

    async def measure(one: TaskSet, system: str, task: Task) -> int:
        async with slots, one.environment.open(task) as env:
            first = await env.start()
        if first.images:
            raise ConfigError(
                f"{one.name} shows pictures, and our adapter for TRL passes text only"
            )
        talk = [Message("system", system), Message("user", first.text)]
        return len(renderer.conversation_ids(talk)[0])

    def measures() -> Iterable[Coroutine[Any, Any, int]]:
        for one in sets:
            system = system_text(one.environment, get_format(config.format))
            for task in [*one.train, *one.held_out]:
                yield measure(one, system, task)

    try:
        return max(await asyncio.gather(*measures()))
    finally:
        for one in sets:
            await one.environment.aclose()
