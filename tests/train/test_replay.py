"""Rare successes are kept, bounded, drawn by the seed, imitated, and survive a stop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from train.test_algorithms import bandit, make_episode, make_turn
from train.test_loop import ToyRun, make_config
from train.toy import toy_tasks

from practicum.config.train import ReplayConfig, RlConfig
from practicum.core.episode import Group
from practicum.train.algorithms import make_algorithm
from practicum.train.algorithms.base import JudgedGroup
from practicum.train.losses import imitation_loss
from practicum.train.replay import ReplayStore
from practicum.train.update import update_policy

TASKS = toy_tasks(8)


def group_of(task: int, *rewards: float, name: str = "") -> JudgedGroup:
    episodes = tuple(
        make_episode(i, [make_turn((5,), reward)], task=TASKS[task], name=f"{task}{name}.{i}")
        for i, reward in enumerate(rewards)
    )
    return make_algorithm(bandit("grpo").algorithm).judge(Group(TASKS[task], episodes), 2)


def ids(store: ReplayStore) -> list[str]:
    return [episode.id for episode in store.episodes]


def test_successes_are_kept_while_they_are_rare() -> None:
    store = ReplayStore(ReplayConfig(max_success=0.25, per_task=2))
    store.observe([group_of(0, 1, 0, 0, 0), group_of(1, 1, 1, 0, 0), group_of(2, 0, 0, 0, 0)])
    assert ids(store) == ["0.0"]
    store.observe([group_of(0, 0, 0, 0, 0, name="b")])
    assert ids(store) == ["0.0"]
    store.observe([group_of(0, 0, 1, 0, 0, name="c"), group_of(0, 0, 0, 1, 0, name="d")])
    assert ids(store) == ["0c.1", "0d.2"]  # the newest two
    store.observe([group_of(0, 1, 1, 0, 0, name="e")])
    assert ids(store) == []


def test_the_oldest_make_room() -> None:
    store = ReplayStore(ReplayConfig(size=3, max_success=0.5))
    store.observe([group_of(task, 1, 0) for task in range(5)])
    assert ids(store) == ["2.0", "3.0", "4.0"]


def test_a_draw_depends_on_seed_and_update_alone() -> None:
    config = ReplayConfig(max_success=0.5, per_update=3)
    store = ReplayStore(config)
    store.observe([group_of(task, 1, 0) for task in range(8)])
    drawn = [[e.id for e in store.draw(seed=1, update=update)] for update in range(4)]
    assert all(len(set(one)) == 3 for one in drawn) and len({tuple(one) for one in drawn}) > 1
    again = ReplayStore(config, store.episodes)
    assert [[e.id for e in again.draw(1, update)] for update in range(4)] == drawn


def test_imitation_stops_where_a_token_is_likely_enough() -> None:
    logprobs = torch.log(torch.tensor([0.5, 0.6, 0.61])).requires_grad_()
    recorded = torch.log(torch.tensor([0.9, 0.5, 0.5]))
    loss = imitation_loss(logprobs, recorded, clip=0.21)
    # Less likely than then, a fifth likelier, and beyond 1.21 times.
    assert loss.tolist() == pytest.approx([-logprobs[0].item(), -logprobs[1].item(), 0.0])
    loss.sum().backward()
    assert logprobs.grad is not None and logprobs.grad.tolist() == [-1.0, -1.0, 0.0]


def replay_config(**changes: Any) -> RlConfig:
    replay = {"max_success": 0.9, "per_update": 4, "size": 6, "weight": 0.5}
    return make_config(replay=replay, num_updates=8, **changes)


async def test_replayed_episodes_are_counted_and_a_stop_changes_nothing(tmp_path: Path) -> None:
    whole = ToyRun(tmp_path / "whole", replay_config())
    await whole.train()
    assert whole.rows[0]["replay/episodes"] == 0  # nothing of an update is replayed in it
    assert whole.rows[-1]["replay/episodes"] == 4
    assert all(row["replay/kept"] <= 6 for row in whole.rows)
    assert all(0 <= row["replay/clip_fraction"] <= 1 for row in whole.rows[1:])
    first = ToyRun(tmp_path / "parts", replay_config())
    await first.train(stop_after=5)
    second = ToyRun(tmp_path / "parts", replay_config())
    second.known = {e.id: e for e in first.episodes}
    await second.train()
    assert second.weights_hash() == whole.weights_hash()
    plain = ToyRun(tmp_path / "plain", make_config(num_updates=8))
    await plain.train()
    assert plain.weights_hash() != whole.weights_hash()
    assert not any(name.startswith("replay/") for name in plain.rows[-1])


async def test_an_update_without_an_informative_group_still_imitates(tmp_path: Path) -> None:
    run = ToyRun(tmp_path, replay_config(algorithm={"minibatches": 2}))
    await run.train(stop_after=4)
    kept = ReplayStore(ReplayConfig(), [e for e in run.episodes if e.is_success][:4])
    before = run.weights_hash()
    row = update_policy(
        run.trainer,
        [],
        make_algorithm(run.config.algorithm),
        update=9,
        seed=0,
        replay=run.config.replay,
        replayed=kept.draw(0, 0),
    )
    assert row["replay/tokens"] == 8 and row["tokens/trained"] == 0
    assert row["loss/replay"] >= 0 and run.weights_hash() != before
