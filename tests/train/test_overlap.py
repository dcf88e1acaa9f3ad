"""Sampling and training at once: a bound that holds, and none at all is today's training."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from train.test_loop import ToyRun, make_config

from practicum.config.train import GroupsConfig, RlConfig
from practicum.train import loop
from practicum.train.algorithms import make_algorithm
from practicum.train.checkpoint import read_progress
from practicum.train.collect import Collector
from practicum.train.mixture import OpenGroup
from practicum.train.trainer import LocalTrainer


def overlapped(bound: int, **changes: Any) -> RlConfig:
    return make_config(overlap={"max_staleness": bound}, **changes)


async def test_without_staleness_training_is_what_it_is_without_overlap(tmp_path: Path) -> None:
    hashes, episodes = [], []
    for name, config in (("a", make_config(num_updates=5)), ("b", overlapped(0, num_updates=5))):
        run = ToyRun(tmp_path / name, config)
        await run.train()
        hashes.append(run.weights_hash())
        episodes.append([e.id for e in run.episodes])
    assert hashes[0] == hashes[1] and episodes[0] == episodes[1]


@pytest.mark.parametrize("bound", [1, 2])
async def test_learns_within_the_bound_while_it_samples(tmp_path: Path, bound: int) -> None:
    run = ToyRun(tmp_path, overlapped(bound, num_updates=24))
    threads: set[int] = set()
    gather = LocalTrainer.gather

    def watched(self: Any, *args: Any, **options: Any) -> Any:
        threads.add(threading.get_ident())
        return gather(self, *args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalTrainer, "gather", watched)
        await run.train()
    assert threading.get_ident() not in threads
    rewards = [row["reward/mean"] for row in run.rows]
    assert sum(rewards[-3:]) / 3 > sum(rewards[:3]) / 3 + 0.2, rewards
    # An update whose groups all agree has nothing to learn from, and so no age.
    assert 1 <= max(row.get("staleness/max", 0) for row in run.rows) <= bound
    assert all(row["time/sync_s"] > 0 for row in run.rows)
    for ours, theirs in zip(
        run.trainer.model.network.parameters(), run.policy.model.network.parameters(), strict=True
    ):
        assert torch.equal(ours, theirs)


async def test_an_episode_that_is_too_old_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Collector, "_is_due", lambda self, group: False)
    monkeypatch.setattr(loop, "staleness", lambda collected, update: [2])
    with pytest.raises(AssertionError, match="2 updates old"):
        await ToyRun(tmp_path, overlapped(1, num_updates=3)).train()


async def test_groups_under_way_survive_a_stop_with_their_age(tmp_path: Path) -> None:
    config = overlapped(2, num_updates=6)
    first = ToyRun(tmp_path, config)
    checkpoint = await first.train(stop_after=3)
    groups = read_progress(checkpoint)["open_groups"]
    assert groups and all(group["version"] >= 1 for group in groups)
    second = ToyRun(tmp_path, config)
    second.known = {e.id: e for e in first.episodes}
    await second.train()
    assert [row["update"] for row in first.rows + second.rows] == [1, 2, 3, 4, 5, 6]
    assert all(row["staleness/max"] <= 2 for row in second.rows if "staleness/max" in row)


class Paced(Collector):
    """Groups end when the test says so, and all of them teach."""

    def __init__(self, bound: int, per_update: int) -> None:
        groups = GroupsConfig(size=2, per_update=per_update)
        config = make_config()
        self.numbers = iter(range(1000))
        super().__init__(
            self,  # type: ignore[arg-type]
            8,
            groups,
            make_algorithm(config.algorithm),
            lambda _: None,
            bound,
        )
        self.ends: dict[int, asyncio.Event] = {}

    def next(self) -> OpenGroup:
        number = next(self.numbers)
        self.ends[number] = asyncio.Event()
        nothing: Any = None
        return OpenGroup(number, nothing, nothing, 0)

    async def _play_group(self, group: OpenGroup) -> Any:
        await self.ends[group.number].wait()
        return Told(group.number)


class Told:
    teaches = True

    def __init__(self, number: int) -> None:
        self.number = number


async def numbers(job: asyncio.Task[Any]) -> list[int]:
    return [group.number for group in (await asyncio.wait_for(job, 5)).groups]


async def test_an_update_waits_for_what_the_next_could_not_use() -> None:
    collector = Paced(bound=1, per_update=2)
    job = asyncio.create_task(collector.collect())
    await asyncio.sleep(0)
    assert len(collector.ends) == 4  # two for this update, two ahead
    for number in (1, 3, 2):
        collector.ends[number].set()
    # Two are enough. The third that has ended is left for later, and more are started ahead.
    assert await numbers(job) == [1, 2]
    assert [group.number for group in collector.open_groups] == [0, 3]
    collector.version = 1
    job = asyncio.create_task(collector.collect())
    await asyncio.sleep(0.01)
    collector.ends[4].set()
    collector.ends[5].set()
    await asyncio.sleep(0.01)
    assert not job.done()  # group 0 began with weights that will be two updates old
    collector.ends[0].set()
    assert (await numbers(job))[:2] == [3, 4]
    await collector.aclose()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"groups": {"carry_over": True}}, "leave one out"),
        ({"algorithm": {"mismatch_cap": None}}, "give it a number"),
    ],
)
def test_what_contradicts_overlap_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        overlapped(1, **changes)
