"""verl's checkpoints as plain Hugging Face folders, through verl's own merger.

    python -m practicum.adapters.verl.checkpoints checkpoints/global_step_20 OUT

The checkpoint stays as it is, so that verl can go on from it. What a model was trained on is
written beside its weights, where `practicum eval` looks for it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from practicum.core.errors import ConfigError
from practicum.train.checkpoint import MANIFEST_FILE


def merge_checkpoint(checkpoint: Path, out: Path, manifest: Path | None = None) -> Path:
    """Write the actor of a `global_step_N` folder to a new folder that transformers loads."""
    actor = checkpoint / "actor" if (checkpoint / "actor").is_dir() else checkpoint
    if not list(actor.glob("model_world_size_*_rank_0.pt")):
        raise ConfigError(f"{checkpoint} holds no FSDP checkpoint of verl: name a global_step_N")
    if out.exists():
        raise ConfigError(f"{out} exists already: choose another folder")
    draft = out.with_name(f".{out.name}.{os.getpid()}.draft")
    command = [sys.executable, "-m", "verl.model_merger", "merge", "--backend", "fsdp"]
    command += ["--local_dir", str(actor), "--target_dir", str(draft)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0 or not (draft / "config.json").exists():
            raise ConfigError(f"verl's merger failed on {actor}: {done.stderr[-2000:]}")
        if manifest is not None:
            shutil.copy(manifest, draft / MANIFEST_FILE)
        draft.rename(out)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return out


def main(argv: list[str] | None = None) -> int:
    """Merge one checkpoint; 2 where the input is wrong."""
    parser = argparse.ArgumentParser(prog="merge", description=__doc__)
    parser.add_argument("checkpoint", type=Path, help="a global_step_N folder")
    parser.add_argument("out", type=Path, help="the folder to write")
    parser.add_argument("--manifest", type=Path, help="the training.json of the export")
    given = parser.parse_args(argv)
    try:
        merge_checkpoint(given.checkpoint, given.out, given.manifest)
    except ConfigError as error:
        sys.stderr.write(f"practicum: {error}\n")
        return 2
    sys.stdout.write(f"model {given.out}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
