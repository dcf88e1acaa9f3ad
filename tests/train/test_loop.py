"""The online loop on a game that takes seconds: it learns, repeats, resumes and survives faults."""

from __future__ import annotations

import hashlib
import math
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from tiny_models import tiny_model
from train.toy import toy_table, toy_tasks

from practicum.config.train import RlConfig
from practicum.core.episode import Episode
from practicum.core.errors import DivergedError, EnvError, StoreError
from practicum.policies.local.engine import EngineOptions
from practicum.policies.local.policy import HfPolicy
from practicum.train.checkpoint import (
    PROGRESS_FILE,
    PROGRESS_KEYS,
    STATE_FILE,
    latest_checkpoint,
    read_progress,
    write_checkpoint,
)
from practicum.train.loop import Journal, Progress, train_online
from practicum.train.mixture import Mixture, OpenGroup, Part
from practicum.train.trainer import LocalTrainer


def make_config(**changes: Any) -> RlConfig:
    values: dict[str, Any] = {
        "env": "toy",
        "model": {"path": "unused", "max_context": 256},
        "packing": {"pack_tokens": 512},
        "sampler": {"slots": 8},
        "num_updates": 16,
        "groups": {"size": 4, "per_update": 8},
        "optimizer": {"learning_rate": 0.01},
        "checkpoints": {"every": 3},
        "algorithm": {},
        "evaluate": None,
    }
    for key, value in changes.items():
        values[key] = values.get(key, {}) | value if isinstance(value, dict) else value
    return RlConfig.model_validate(values)


class ToyRun:
    """A model in training and what it left behind."""

    def __init__(self, folder: Path, config: RlConfig, broken_every: int = 0) -> None:
        self.folder = folder
        self.config = config
        self.rows: list[dict[str, float]] = []
        self.episodes: list[Episode] = []
        self.known: dict[str, Episode] = {}
        model = tiny_model()
        sampler = model.copy() if config.max_staleness > 0 else model
        self.policy = HfPolicy(sampler, EngineOptions(num_slots=8, max_context=256))
        self.trainer = LocalTrainer(
            model,
            config.optimizer,
            config.packing,
            num_updates=config.num_updates,
            value_learning_rate=config.algorithm.value_rate(config.optimizer.learning_rate),
        )
        self.reference = deepcopy(model.network)
        self.parts = [Part("toy", toy_table(self.policy, broken_every=broken_every), toy_tasks())]

    async def train(self, stop_after: int | None = None) -> Path:
        progress = Progress()
        checkpoint = latest_checkpoint(self.folder)
        if checkpoint is not None:
            self.trainer.load_state(checkpoint / STATE_FILE)
            self.trainer.publish(self.policy.model)
            saved = read_progress(checkpoint)
            parts = {part.name: part for part in self.parts}
            groups = [
                OpenGroup(
                    group["number"],
                    (part := parts[group["part"]]),
                    next(task for task in part.tasks if task.id == group["task_id"]),
                    group["seed"],
                    {int(k): self.known[e] for k, e in group["episodes"].items()},
                    group["version"],
                )
                for group in saved["open_groups"]
            ]
            replay = [self.known[e] for e in saved["replay"]]
            progress = Progress(
                saved["update"], saved["train_s"], 0.0, saved["mixture"], groups, replay
            )
        journal = Journal(
            self.episodes.append,
            self.rows.append,
            self.save,
            lambda tallies: {"mean": sum(s for s, _ in tallies) / sum(n for _, n in tallies)},
            lambda: stop_after is not None and len(self.rows) >= stop_after,
        )
        return await train_online(
            self.config,
            self.mixture(),
            self.policy,
            self.trainer,
            None,
            journal,
            progress,
            self.reference,
        )

    def mixture(self) -> Mixture:
        parts = self.config.parts()
        for part in self.parts:
            part.max_turns = parts[part.name].max_turns
        adaptive = self.config.mixture.adaptive if self.config.mixture else None
        return Mixture(self.parts, self.config.seed, adaptive)

    def save(self, progress: Progress) -> Path:
        return write_checkpoint(self.folder, self.trainer, progress.to_json(), {})

    def weights_hash(self) -> str:
        digest = hashlib.sha256()
        for parameter in self.trainer.model.network.parameters():
            digest.update(parameter.detach().numpy().tobytes())
        return digest.hexdigest()


async def test_reward_rises(tmp_path: Path) -> None:
    run = ToyRun(tmp_path, make_config())
    await run.train()
    rewards = [row["reward/mean"] for row in run.rows]
    assert sum(rewards[-3:]) / 3 > sum(rewards[:3]) / 3 + 0.3, rewards
    assert max(row.get("mismatch/max", 0) for row in run.rows) < 1e-3


async def test_two_runs_give_the_same_weights(tmp_path: Path) -> None:
    hashes = []
    for name in ("a", "b"):
        run = ToyRun(tmp_path / name, make_config(num_updates=4))
        await run.train()
        hashes.append(run.weights_hash())
    assert hashes[0] == hashes[1]


async def test_stopped_and_resumed_equals_run_in_one_go(tmp_path: Path) -> None:
    whole = ToyRun(tmp_path / "whole", make_config(num_updates=7))
    await whole.train()
    first = ToyRun(tmp_path / "parts", make_config(num_updates=7))
    await first.train(stop_after=4)
    second = ToyRun(tmp_path / "parts", make_config(num_updates=7))
    await second.train()
    assert [row["update"] for row in first.rows + second.rows] == list(range(1, 8))
    assert second.weights_hash() == whole.weights_hash()


@pytest.mark.parametrize("written", ["[]", '{"update": 3, "train_s": 1.0}'])
def test_a_checkpoint_of_another_version_says_what_to_do(tmp_path: Path, written: str) -> None:
    (tmp_path / PROGRESS_FILE).write_text(written)
    with pytest.raises(StoreError, match=r"lacks .*saving_s.*model\.path="):
        read_progress(tmp_path)
    assert tuple(Progress().to_json()) == PROGRESS_KEYS


async def test_faulted_episodes_are_counted_masked_and_kill_no_neighbour(tmp_path: Path) -> None:
    config = make_config(num_updates=3, groups={"retries": 0})
    run = ToyRun(tmp_path, config, broken_every=5)
    await run.train()
    broken = [e for e in run.episodes if e.is_broken]
    assert broken and all(e.reward is None for e in broken)
    assert sum(row["error/total"] for row in run.rows) == len(broken)
    assert sum(row["episode/judged"] for row in run.rows) == len(run.episodes) - len(broken)
    assert all(row["group/informative"] > 0 for row in run.rows)


async def test_a_world_that_is_gone_stops_the_run_and_costs_no_update(tmp_path: Path) -> None:
    run = ToyRun(tmp_path, make_config(num_updates=3), broken_every=1)
    with pytest.raises(EnvError, match="toy episodes of update 1 broke"):
        await run.train()
    assert run.rows == [] and latest_checkpoint(tmp_path) is not None
    run.parts = [Part("toy", toy_table(run.policy), toy_tasks())]
    await run.train()
    assert [row["update"] for row in run.rows] == [1, 2, 3]


async def test_a_gradient_that_is_no_number_stops_the_run_before_it_is_applied(
    tmp_path: Path,
) -> None:
    run = ToyRun(tmp_path, make_config(num_updates=3))
    before = run.weights_hash()
    spoiled = next(p for p in run.trainer.model.network.parameters() if p.requires_grad)
    spoiled.register_hook(lambda grad: grad * math.nan)
    with pytest.raises(DivergedError, match="gradient of update 1 is nan"):
        await run.train()
    assert run.weights_hash() == before and run.rows == []


async def test_a_broken_episode_is_played_again(tmp_path: Path) -> None:
    config = make_config(num_updates=2, groups={"retries": 3})
    run = ToyRun(tmp_path, config, broken_every=5)
    await run.train()
    assert any(e.is_broken for e in run.episodes)
    assert all(row["error/total"] == 0 for row in run.rows)


async def test_groups_without_variance_are_replaced(tmp_path: Path) -> None:
    config = make_config(num_updates=12, groups={"size": 2, "per_update": 4, "max_per_update": 12})
    run = ToyRun(tmp_path, config)
    await run.train()
    assert any(row["group/count"] > 4 for row in run.rows)
    for row in run.rows:
        assert row["group/informative"] == 4 or row["group/count"] == 12
        kinds = ("informative", "all_success", "all_failure", "dropped")
        assert sum(row[f"group/{kind}"] for kind in kinds) == row["group/count"]


async def test_groups_carried_over_an_update_learn_too(tmp_path: Path) -> None:
    groups = {"size": 8, "per_update": 4, "carry_over": True}
    run = ToyRun(tmp_path, make_config(num_updates=20, groups=groups))
    await run.train()
    rewards = [row["reward/mean"] for row in run.rows]
    assert sum(rewards[-3:]) / 3 > sum(rewards[:3]) / 3 + 0.2, rewards
    versions = [{t.completion.policy_version for t in e.turns} for e in run.episodes]
    assert any(len(v) > 1 for v in versions)


async def test_half_finished_groups_survive_in_the_checkpoint(tmp_path: Path) -> None:
    config = make_config(num_updates=4, groups={"size": 6, "per_update": 1, "carry_over": True})
    first = ToyRun(tmp_path, config)
    checkpoint = await first.train(stop_after=2)
    groups = read_progress(checkpoint)["open_groups"]
    ended = {e for group in groups for e in group["episodes"].values()}
    assert groups and ended
    second = ToyRun(tmp_path, config)
    second.known = {e.id: e for e in first.episodes}
    await second.train()
    again = {e.id for e in second.episodes}
    assert not again & ended
    wanted = {f"{g['task_id']}.{g['seed']}.{i}" for g in groups for i in range(6)} - ended
    assert again >= wanted


@pytest.mark.parametrize(
    "options",
    [{"kl": 0.05}, {"minibatches": 2}, {"scale": "std"}, {"mismatch_cap": None}],
    ids=lambda options: next(iter(options)),
)
async def test_every_option_of_the_loss_learns(tmp_path: Path, options: dict[str, Any]) -> None:
    run = ToyRun(tmp_path, make_config(algorithm=options))
    await run.train()
    rewards = [row["reward/mean"] for row in run.rows]
    assert sum(rewards[-3:]) / 3 > sum(rewards[:3]) / 3 + 0.2, rewards


async def test_the_horizon_grows_with_updates(tmp_path: Path) -> None:
    horizon = [{"update": 0, "max_turns": 1}, {"update": 2, "max_turns": 4}]
    run = ToyRun(tmp_path, make_config(num_updates=3, horizon=horizon))
    await run.train()
    rows = [(row.get("stop/turn-limit", 0) > 0, row.get("stop/done", 0) > 0) for row in run.rows]
    assert rows == [(True, False), (True, False), (False, True)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"horizon": [{"update": 1, "max_turns": 2}]}, "begin with update 0"),
        (
            {"horizon": [{"update": 0, "max_turns": 2}], "limits": {"max_turns": 3}},
            "leave one out",
        ),
    ],
)
def test_a_horizon_that_makes_no_sense_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_config(**changes)
