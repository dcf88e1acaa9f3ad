"""Writes a folder that AReaL trains from: tables, settings, and a script that starts it.

```
train.jsonl  valid.jsonl   tasks, one a line, by their content
areal.yaml                 what differs from AReaL's defaults
launch                     ./launch smoke | smoke-text | full [AReaL's settings]
proxy.yaml  launch-proxy   the same through AReaL's proxy, where there are no pictures
training.json              what the model will have been trained on, for the overlap check
```
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from practicum.adapters.areal.translate import (
    areal_settings,
    proxy_settings,
    refuse,
    shows_pictures,
)
from practicum.adapters.exporting import (
    Exported,
    TaskSet,
    compare_panels,
    load_task_sets,
    manifest_of,
    write_script,
)
from practicum.config.train import RlConfig
from practicum.core.canonical import canonical_json
from practicum.core.errors import ConfigError
from practicum.core.task import Task
from practicum.envs.desktop.bodies import TOKEN_VARIABLE
from practicum.policies.local.weights import find_model
from practicum.store.files import to_text, write_atomically
from practicum.train.checkpoint import MANIFEST_FILE

SETTINGS_FILE = "areal.yaml"
PROXY_FILE = "proxy.yaml"
TRAIN_FILE = "train.jsonl"
HELD_OUT_FILE = "valid.jsonl"
KEY_VARIABLE = "OPENAI_API_KEY"
TEXT_MODEL = "Qwen/Qwen3-0.6B"
"""A text model for the stage `smoke-text`; PRACTICUM_TEXT_MODEL names another."""

HEADER = """\
# What differs from AReaL's defaults, for areal 1.0.4; written by `practicum export areal`.
# Paths come from the `launch` script beside this file.
"""
NEED = """\
[ -n "${{{0}:-}}" ] || {{ echo "launch: set {0}" >&2; exit 2; }}

"""
LAUNCH = """\
#!/usr/bin/env bash
# Trains with AReaL, in three stages:
#   ./{name} smoke        one update of two small groups: does everything reach everything?
#   ./{name} smoke-text   the same without pictures, with a small text model
#   ./{name} full         the whole run
# What follows goes to AReaL: cluster.n_gpus_per_node=8 rollout.backend=sglang:d4, or with two
# pluses in front what its settings file does not name.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
stage=${{1:?smoke, smoke-text or full}}
shift

{needs}# AReaL's workers and servers talk to each other by address: that goes through no proxy.
addresses=$(hostname -I 2>/dev/null | tr -s ' ' ',' || true)
own=localhost,127.0.0.1,::1,${{HOSTNAME:-localhost}},$addresses
export NO_PROXY="${{NO_PROXY:+$NO_PROXY,}}${{own%,}}"
export no_proxy=$NO_PROXY
# Its client of other APIs would fetch a list of prices at start.
export LITELLM_LOCAL_MODEL_COST_MAP=${{LITELLM_LOCAL_MODEL_COST_MAP:-True}}

small=(trial_name="${{stage//-/}}" total_train_steps=1 train_dataset.batch_size=2 accept=null
  recover.mode=disabled rollout.max_concurrent_rollouts=2 actor.reward_norm.group_size=2
  {group_size}=2 ++workflow_kwargs.limits.max_turns=3 ++valid_dataset=null)
model=${{PRACTICUM_TEXT_MODEL:-{text_model}}}
text=(actor.path="$model"{text})
case $stage in
  smoke) set -- "${{small[@]}}" "$@" ;;
  smoke-text) set -- "${{small[@]}}" "${{text[@]}}" "$@" ;;
  full) ;;
  *) echo "{name}: unknown stage $stage: smoke, smoke-text or full" >&2; exit 2 ;;
esac

exec "${{PYTHON:-python}}" -m practicum.adapters.areal.train --config "$here/{settings}" \\
  train_dataset.path="$here/{train}" {held_out}++cluster.fileroot="$here" "$@"
"""


def export(config: RlConfig, out: Path) -> Exported:
    """Write the folder; what AReaL would ignore or cannot do is a `ConfigError`."""
    refuse(config)  # before tasks are looked at, which can take minutes
    model = find_areal_model(config.model.path)
    sets = load_task_sets(config)
    try:
        (tasks,) = sets
    finally:
        asyncio.run(_close(sets))
    # AReaL drops a last batch that is not full, and would then have none to train on.
    repeats = math.ceil(config.groups.per_update / len(tasks.train))
    num_rows = repeats * len(tasks.train)
    write_settings(config, model, out, num_rows=num_rows)
    _write_table(out / TRAIN_FILE, list(tasks.train) * repeats)
    if tasks.held_out:
        _write_table(out / HELD_OUT_FILE, tasks.held_out)
    write_atomically(out / MANIFEST_FILE, to_text(manifest_of(Path(model), [tasks], "AReaL")))
    return Exported(sorted(out.iterdir()), out / "launch", compare_panels(sets))


def write_settings(config: RlConfig, model: str, out: Path, *, num_rows: int) -> None:
    """Write what AReaL is told and the scripts that tell it."""
    settings = areal_settings(config, model, _name(out), num_rows)
    settings["needs"] = needed_variables(config)
    _write_yaml(out / SETTINGS_FILE, settings)
    write_script(out / "launch", _launch(config))
    if not shows_pictures(config):
        _write_yaml(out / PROXY_FILE, proxy_settings(config, settings))
        write_script(out / "launch-proxy", _launch(config, is_proxy=True))


def find_areal_model(path: str) -> str:
    """A model's folder, or its name on the hub, which AReaL fetches itself."""
    try:
        return str(find_model(path).resolve())
    except ConfigError:
        owner, slash, name = path.partition("/")
        if slash and owner and name and "/" not in name and not path.startswith((".", "~")):
            return path
        raise


def needed_variables(config: RlConfig) -> list[str]:
    """Names of the secrets that the environment reads."""
    needs = []
    if str(config.options.get("body", "")).startswith(("http://", "https://")):
        needs.append(TOKEN_VARIABLE)
    if config.options.get("judge") is not None:
        needs.append(KEY_VARIABLE)
    return needs


def _launch(config: RlConfig, *, is_proxy: bool = False) -> str:
    text = "" if is_proxy else ' workflow_kwargs.model="$model" sglang.enable_multimodal=false'
    if config.env == "desktop":
        text += " workflow_kwargs.options.view=tree"
    return LAUNCH.format(
        name="launch-proxy" if is_proxy else "launch",
        needs="".join(map(NEED.format, needed_variables(config))),
        group_size="gconfig.n_samples" if is_proxy else "workflow_kwargs.group_size",
        text_model=TEXT_MODEL,
        text=text,
        settings=PROXY_FILE if is_proxy else SETTINGS_FILE,
        train=TRAIN_FILE,
        held_out=f'valid_dataset.path="$here/{HELD_OUT_FILE}" ' if config.evaluate else "",
    )


def _write_yaml(path: Path, settings: Mapping[str, Any]) -> None:
    write_atomically(path, HEADER + yaml.dump(settings, Dumper=_Plain, sort_keys=False))


class _Plain(yaml.SafeDumper):
    """Writes what occurs twice out twice."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _name(out: Path) -> str:
    """A name AReaL takes: no underscore, no slash."""
    return out.resolve().name.replace("_", "-") or "practicum"


def _write_table(path: Path, tasks: Sequence[Task]) -> None:
    write_atomically(path, "".join(canonical_json(asdict(task)) + "\n" for task in tasks))


async def _close(sets: Sequence[TaskSet]) -> None:
    for one in sets:
        await one.environment.aclose()
