"""verl's own trainer, on this CPU, learns from our episodes; some of them break on the way."""

from __future__ import annotations

import hashlib
import json
from importlib.util import find_spec
from pathlib import Path

import pytest

if find_spec("verl") is None:
    pytest.skip(
        "verl lives in a virtual environment of its own: make test-verl", allow_module_level=True
    )

from adapters.one_episode import MODEL
from adapters.verl_episodes import write_export
from adapters.verl_training import Training, train

pytestmark = pytest.mark.filterwarnings("ignore")

NUM_UPDATES = 6
CHECK = "val-aux/practicum/adapters.flaky_textcraft:create/success/mean@8"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Training]:
    folder = write_export(
        tmp_path_factory.mktemp("verl") / "export",
        # One episode of 31 breaks and is not played again.
        env="adapters.flaky_textcraft:create",
        options={"modulus": 31, "remainders": [7]},
        panel="train",
        difficulties=["depth 2"],
        max_tasks=6,
        num_updates=NUM_UPDATES,
        groups={"size": 8, "per_update": 6, "max_per_update": 6, "retries": 0},
        optimizer={"learning_rate": 3e-4},
        packing={"pack_tokens": 8192},
        limits={"max_turns": 8, "max_repeated_refusals": 2},
        evaluate={"panel": "train", "samples": 8},
    )
    # The check is how well it does at the six tasks it practises.
    checked = f"data.val_files={folder / 'train.parquet'}"
    return folder, train(folder, checked, limit_s=900)


def test_success_rises_on_the_tasks_it_practises(trained: tuple[Path, Training]) -> None:
    _, training = trained
    before, after = training.metrics[0][CHECK], training.metrics[NUM_UPDATES][CHECK]
    assert after > before + 0.1, (before, after)


def test_the_trainer_computes_what_the_sampler_recorded(trained: tuple[Path, Training]) -> None:
    _, training = trained
    for update in range(1, NUM_UPDATES + 1):
        row = training.metrics[update]
        assert row["training/rollout_probs_diff_max"] < 1e-3
        assert row["actor/grad_norm"] > 0


def test_broken_episodes_are_left_out_of_the_batch(trained: tuple[Path, Training]) -> None:
    _, training = trained
    assert "broke (env/lost-session" in training.log
    # A batch that lacks an episode is filled up with padding that trains nothing.
    assert "synthetic padding samples" in training.log


def test_a_checkpoint_becomes_a_plain_folder_and_stays(
    trained: tuple[Path, Training], tmp_path: Path
) -> None:
    from practicum.adapters.verl.checkpoints import main
    from practicum.policies.local.weights import load_model

    folder, _ = trained
    checkpoint = folder / "checkpoints" / f"global_step_{NUM_UPDATES}"
    shards = sorted((checkpoint / "actor").glob("*.pt"))
    assert shards
    seen = {path: hashlib.sha256(path.read_bytes()).digest() for path in shards}
    out = tmp_path / "merged"
    manifest = folder / "training.json"
    assert main([str(checkpoint), str(out), "--manifest", str(manifest)]) == 0
    assert {path: hashlib.sha256(path.read_bytes()).digest() for path in seen} == seen
    assert len(json.loads((out / "training.json").read_text())["task_ids"]) == 6
    ours, base = load_model(out, dtype="float32"), load_model(MODEL, dtype="float32")
    pairs = zip(ours.network.parameters(), base.network.parameters(), strict=True)
    assert any((a != b).any() for a, b in pairs)
    assert main([str(checkpoint), str(out)]) == 2
