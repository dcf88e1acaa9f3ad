"""verl's own trainer, on this CPU, learns from our episodes; some of them break on the way."""

from __future__ import annotations

import hashlib
import json
from importlib.util import find_spec
from pathlib import Path
from statistics import mean

import pytest

if find_spec("verl") is None:
    pytest.skip(
        "verl lives in a virtual environment of its own: make test-verl", allow_module_level=True
    )

from adapters.one_episode import MODEL
from adapters.verl_episodes import write_export
from adapters.verl_training import Training, train

from practicum.adapters.verl.checkpoints import main
from practicum.adapters.verl.export import TRAIN_FILE
from practicum.policies.local.weights import load_model

pytestmark = pytest.mark.filterwarnings("ignore")

NUM_UPDATES = 6
NUM_TASKS = 6
NUM_SAMPLES = 8


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Training]:
    folder = write_export(
        tmp_path_factory.mktemp("verl") / "export",
        # One episode of 31 breaks and is not played again.
        env="adapters.flaky_textcraft:create",
        options={"modulus": 31, "remainders": [7]},
        panel="train",
        difficulties=["depth 1"],
        max_tasks=NUM_TASKS,
        num_updates=NUM_UPDATES,
        groups={"per_update": NUM_TASKS, "max_per_update": NUM_TASKS, "size": 8, "retries": 0},
        optimizer={"learning_rate": 2e-4},
        packing={"pack_tokens": 8192},
        limits={"max_turns": 8, "max_repeated_refusals": 2},
        evaluate={"panel": "train", "samples": NUM_SAMPLES},
    )
    # The check is how well it does at the six tasks it practises.
    checked = (f"data.val_files={folder / TRAIN_FILE}", f"trainer.validation_data_dir={folder}")
    return folder, train(folder, *checked, limit_s=900)


def successes(folder: Path, update: int) -> list[float]:
    """Of the check after so many updates, one for each episode that did not break."""
    lines = (folder / f"{update}.jsonl").read_text().splitlines()
    return [json.loads(line)["success"] for line in lines]


def test_success_rises_on_the_tasks_it_practises(trained: tuple[Path, Training]) -> None:
    folder, _ = trained
    before, after = successes(folder, 0), successes(folder, NUM_UPDATES)
    assert mean(after) > mean(before) + 0.1, (mean(before), mean(after))
    for judged in (before, after):
        assert NUM_TASKS * NUM_SAMPLES - 4 <= len(judged) < NUM_TASKS * NUM_SAMPLES


def test_the_trainer_computes_what_the_sampler_recorded(trained: tuple[Path, Training]) -> None:
    _, training = trained
    rows = [training.metrics[update] for update in range(1, NUM_UPDATES + 1)]
    assert max(row["training/rollout_probs_diff_max"] for row in rows) < 1e-3
    # Once all succeed there is nothing left to learn from.
    assert rows[0]["actor/grad_norm"] > 0 and rows[1]["actor/grad_norm"] > 0


def test_broken_episodes_are_left_out_of_the_batch(trained: tuple[Path, Training]) -> None:
    _, training = trained
    assert "broke (env/lost-session" in training.log
    # A batch that lacks an episode is filled up with padding that trains nothing.
    assert "synthetic padding samples" in training.log


def test_a_checkpoint_becomes_a_plain_folder_and_stays(
    trained: tuple[Path, Training], tmp_path: Path
) -> None:
    folder, _ = trained
    checkpoint = folder / "checkpoints" / f"global_step_{NUM_UPDATES}"
    shards = sorted((checkpoint / "actor").glob("*.pt"))
    assert shards
    seen = {path: hashlib.sha256(path.read_bytes()).digest() for path in shards}
    out = tmp_path / "merged"
    manifest = folder / "training.json"
    assert main([str(checkpoint), str(out), "--manifest", str(manifest)]) == 0
    assert {path: hashlib.sha256(path.read_bytes()).digest() for path in seen} == seen
    assert len(json.loads((out / "training.json").read_text())["task_ids"]) == NUM_TASKS
    ours, base = load_model(out, dtype="float32"), load_model(MODEL, dtype="float32")
    pairs = zip(ours.network.parameters(), base.network.parameters(), strict=True)
    assert any((a != b).any() for a, b in pairs)
    assert main([str(checkpoint), str(out)]) == 2
