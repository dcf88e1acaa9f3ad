"""Writes a folder that verl trains from: tables, settings, and a script that starts it.

```
train.parquet  val.parquet   tasks, in verl's columns
verl.yaml                    what differs from verl's defaults
agent.yaml                   where verl finds our agent loop
training.json                what the model will have been trained on, for the overlap check
launch                       starts the training; settings on top of it as arguments
merge                        a checkpoint of it as a Hugging Face folder
```
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
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
from practicum.adapters.verl.rows import AGENT_NAME, Row, held_out_rows, training_rows, write_rows
from practicum.adapters.verl.settings import verl_settings
from practicum.config.train import RlConfig
from practicum.core.message import Message
from practicum.policies.local.weights import find_model
from practicum.policies.rendering import Renderer
from practicum.store.files import to_text, write_atomically
from practicum.train.checkpoint import MANIFEST_FILE

LOOP = "practicum.adapters.verl.loop.PracticumAgentLoop"
SETTINGS_FILE = "verl.yaml"
AGENT_FILE = "agent.yaml"
TRAIN_FILE = "train.parquet"
HELD_OUT_FILE = "val.parquet"
PROMPT_STEP = 64
"""Prompt lengths are rounded up to a multiple of this."""

HEADER = """\
# What differs from verl's defaults, for verl 0.9.1; written by `practicum export verl`.
# Paths come from the `launch` script beside this file.
"""
PLACES = {
    "data.train_files": TRAIN_FILE,
    "data.val_files": HELD_OUT_FILE,
    "actor_rollout_ref.rollout.agent.agent_loop_config_path": AGENT_FILE,
    "trainer.default_local_dir": "checkpoints",
}
"""Settings that name something in the folder, which can be moved."""
SCRIPT = """\
#!/usr/bin/env bash
# {purpose}
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
exec "${{PYTHON:-python}}" -m {arguments} "$@"
"""
LAUNCH = SCRIPT.format(
    purpose="Trains with verl: ./launch [verl's settings, as in trainer.n_gpus_per_node=8]",
    arguments=" \\\n  ".join(
        [
            'verl.trainer.main_ppo --config-dir "$here" --config-name verl',
            *(f'{key}="$here/{name}"' for key, name in PLACES.items()),
        ]
    ),
)
MERGE = SCRIPT.format(
    purpose="Makes a Hugging Face folder of a checkpoint: ./merge checkpoints/global_step_20 OUT",
    arguments=f'practicum.adapters.verl.checkpoints --manifest "$here/{MANIFEST_FILE}"',
)


def export(config: RlConfig, out: Path) -> Exported:
    """Write the folder; what verl would ignore or cannot do is a `ConfigError`."""
    # Refuse before tasks are looked at, which can take minutes; lengths are checked below.
    verl_settings(config, 1, out.name)
    model = find_model(config.model.path)
    sets = load_task_sets(config)
    train, held_out = asyncio.run(_look_at(config, sets))
    longest = longest_prompt(Renderer.load(model), [*train, *held_out])
    settings = verl_settings(config, PROMPT_STEP * math.ceil(longest / PROMPT_STEP), out.name)
    settings["actor_rollout_ref"]["model"]["path"] = str(model.resolve())
    if settings["critic"]["enable"]:
        settings["critic"]["model"]["path"] = str(model.resolve())
    write_rows(out / TRAIN_FILE, train)
    # verl opens a validation table also where none is judged.
    write_rows(out / HELD_OUT_FILE, held_out or train[:1])
    write_atomically(out / SETTINGS_FILE, settings_text(settings))
    write_atomically(out / AGENT_FILE, yaml.safe_dump([{"name": AGENT_NAME, "_target_": LOOP}]))
    write_atomically(out / MANIFEST_FILE, to_text(manifest_of(model, sets, "verl")))
    launch = write_script(out / "launch", LAUNCH)
    write_script(out / "merge", MERGE)
    return Exported(sorted(out.iterdir()), launch, compare_panels(sets))


def settings_text(settings: dict[str, Any]) -> str:
    """A config file for verl's main program."""
    found = {
        "defaults": ["ppo_trainer", "_self_"],
        "hydra": {"searchpath": ["pkg://verl.trainer.config"]},
    }
    return HEADER + yaml.safe_dump(found | settings, sort_keys=False)


def longest_prompt(renderer: Renderer, rows: Sequence[Row]) -> int:
    """Tokens of the longest prompt among rows."""
    return max(
        len(renderer.conversation_ids([Message(m["role"], m["content"]) for m in row["prompt"]])[0])
        for row in rows
    )


async def _look_at(config: RlConfig, sets: Sequence[TaskSet]) -> tuple[list[Row], list[Row]]:
    """The rows of both tables; every task is opened once to see what it shows first."""
    try:
        train = await training_rows(config, sets)
        held_out = await held_out_rows(config, sets) if config.evaluate is not None else []
        return train, held_out
    finally:
        for one in sets:
            await one.environment.aclose()
