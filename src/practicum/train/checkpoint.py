"""Checkpoints: a folder transformers loads, and beside it what training needs to go on.

```
checkpoints/update-000020/      model.safetensors, config.json, tokenizer files
                                training.json   what the model was trained on
                                trainer.pt      optimiser moments, master weights
                                progress.json   update, data cursor, lengths of the run's files
checkpoints/latest              link to the newest
```

A checkpoint appears whole or not at all.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from practicum.core.errors import StoreError
from practicum.policies.local.weights import save_model
from practicum.store.files import read_json, to_text, write_atomically
from practicum.train.trainer import LocalTrainer

LATEST = "latest"
"""A link to the newest checkpoint, for configs that begin where a run ended."""
STATE_FILE = "trainer.pt"
PROGRESS_FILE = "progress.json"
MANIFEST_FILE = "training.json"
PROGRESS_KEYS = ("update", "train_s", "saving_s", "mixture", "open_groups", "replay")


def write_checkpoint(
    folder: Path, trainer: LocalTrainer, progress: Mapping[str, Any], manifest: Mapping[str, Any]
) -> Path:
    """Write a checkpoint named by `progress["update"]`."""
    path = folder / f"update-{progress['update']:06d}"
    draft = folder / f".{path.name}.{os.getpid()}.draft"
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    save_model(trainer.model, draft)
    trainer.save_state(draft / STATE_FILE)
    write_atomically(draft / MANIFEST_FILE, to_text(manifest))
    write_atomically(draft / PROGRESS_FILE, to_text(progress))
    shutil.rmtree(path, ignore_errors=True)
    draft.rename(path)
    link = folder / f".{LATEST}.{os.getpid()}"
    link.unlink(missing_ok=True)
    link.symlink_to(path.name)
    link.replace(folder / LATEST)
    return path


def latest_checkpoint(folder: Path) -> Path | None:
    """The newest whole checkpoint."""
    found = sorted(folder.glob("update-*")) if folder.is_dir() else []
    return found[-1] if found else None


def drop_old(folder: Path, keep: int) -> None:
    """Remove all but the newest checkpoints, and drafts of processes that died."""
    for path in sorted(folder.glob("update-*"))[:-keep]:
        shutil.rmtree(path)
    for draft in folder.glob(".*.draft"):
        shutil.rmtree(draft)


def read_progress(checkpoint: Path) -> dict[str, Any]:
    """Where training stood."""
    found = read_json(checkpoint / PROGRESS_FILE)
    progress: dict[str, Any] = found if isinstance(found, dict) else {}
    if missing := [key for key in PROGRESS_KEYS if key not in progress]:
        raise StoreError(
            f"{checkpoint / PROGRESS_FILE} lacks {', '.join(missing)}: it is damaged or of another "
            f"version; begin a new run with its weights, model.path={checkpoint}"
        )
    return progress


def read_manifest(model: Path) -> dict[str, Any] | None:
    """What a model was trained on, if its folder says so."""
    path = model / MANIFEST_FILE
    return read_json(path) if path.is_file() else None


def training_manifest(
    name: str, task_ids: Iterable[str], families: Iterable[str], earlier: Mapping[str, Any] | None
) -> dict[str, Any]:
    """What a model was trained on, all trainings together, for the overlap check."""
    before = earlier or {"name": "", "task_ids": [], "families": []}
    names = [*(n for n in before["name"].split(" + ") if n and n != name), name]
    return {
        "name": " + ".join(names),
        "task_ids": sorted({*before["task_ids"], *task_ids}),
        "families": sorted({*before["families"], *families}),
    }
