"""Several environments in one training: shares, progress, spread, and all of it after a stop."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from train.test_algorithms import bandit, make_episode, make_turn
from train.test_loop import ToyRun, make_config
from train.toy import toy_table, toy_tasks

from practicum.config.base import read_config
from practicum.config.mixture import AdaptiveConfig
from practicum.config.train import RlConfig, SftConfig
from practicum.core.episode import Group
from practicum.core.errors import ConfigError, EnvError
from practicum.core.task import Task
from practicum.train.advantages import spread_factors
from practicum.train.algorithms import make_algorithm
from practicum.train.algorithms.base import JudgedGroup
from practicum.train.mixture import Mixture, Part, learning_progress
from practicum.train.order import Outcome, shares_of
from practicum.train.update import update_policy

TABLE: Any = None


def make_mixture(adaptive: AdaptiveConfig | None = None, **weights: float) -> Mixture:
    parts = [Part(name, TABLE, toy_tasks(3), weight) for name, weight in weights.items()]
    return Mixture(parts, 7, adaptive)


def earned(mean_rewards: list[float]) -> list[Outcome]:
    return [Outcome("", reward, teaches=0 < reward < 1) for reward in mean_rewards]


def test_groups_are_dealt_by_weight_at_any_time() -> None:
    mixture = make_mixture(a=3, b=1)
    dealt = [mixture.next().part.name for _ in range(40)]
    for count in range(1, 41):
        assert abs(dealt[:count].count("a") - 0.75 * count) <= 1
    assert Counter(dealt) == {"a": 30, "b": 10}


def test_environments_do_not_share_their_order_of_tasks() -> None:
    mixture = make_mixture(a=1, b=1)
    groups = [mixture.next() for _ in range(12)]
    assert [group.number for group in groups] == list(range(12))
    assert len({group.seed for group in groups}) == 12
    for name in "ab":
        tasks = [group.task.id for group in groups if group.part.name == name]
        assert sorted(tasks[:3]) == sorted(task.id for task in toy_tasks(3))


def test_progress_is_the_move_between_two_halves_less_its_error() -> None:
    assert learning_progress([0.0, 0.0, 1.0, 1.0]) == 1.0
    assert learning_progress([1.0, 1.0, 0.0, 0.0]) == 1.0
    assert learning_progress([0.5] * 6) == 0.0
    # Means 0.25 and 0.75, variance 0.125 in each half of two: 0.5 - sqrt(0.125).
    assert learning_progress([0.0, 0.5, 0.5, 1.0]) == pytest.approx(0.5 - 0.125**0.5)


def test_shares_keep_the_floor() -> None:
    assert shares_of({"a": 1, "b": 3}, 0.0) == {"a": 0.25, "b": 0.75}
    assert shares_of({"a": 0.0, "b": 5.0}, 0.1) == pytest.approx({"a": 0.1, "b": 0.9})


def test_shares_follow_progress_once_all_have_been_seen() -> None:
    mixture = make_mixture(AdaptiveConfig(floor=0.1, window=4), a=1, b=1)
    mixture.observe("a", earned([0.0, 0.0, 1.0, 1.0]))
    assert mixture.shares() == {"a": 0.5, "b": 0.5}
    mixture.observe("b", earned([0.5] * 4))
    assert mixture.shares() == pytest.approx({"a": 0.9, "b": 0.1})
    dealt = Counter(mixture.next().part.name for _ in range(50))
    assert dealt == {"a": 45, "b": 5}
    mixture.observe("a", earned([1.0] * 4))  # nothing moves any more: by weight again
    assert mixture.shares() == {"a": 0.5, "b": 0.5}


def test_a_saved_mixture_goes_on_with_the_very_next_group() -> None:
    adaptive = AdaptiveConfig(floor=0.1, window=4)
    whole = make_mixture(adaptive, a=2, b=1)
    whole.observe("a", earned([0.0, 0.2, 0.7]))
    for _ in range(5):
        whole.next()
    resumed = make_mixture(adaptive, a=2, b=1)
    resumed.take_up(json.loads(json.dumps(whole.to_json())))
    for mixture in (whole, resumed):
        mixture.observe("a", earned([1.0]))
        mixture.observe("b", earned([0.0, 0.0, 0.0, 0.5]))
    assert [_told(whole.next()) for _ in range(9)] == [_told(resumed.next()) for _ in range(9)]


def _told(group: Any) -> tuple[Any, ...]:
    return group.number, group.part.name, group.task.id, group.seed


def test_spreads_are_made_equal_and_the_whole_is_kept() -> None:
    advantages = {"a": np.array([0.1, -0.1]), "b": np.array([1.0, -1.0, 1.0, -1.0])}
    factors = spread_factors(advantages)
    whole = ((2 * 0.01 + 4 * 1.0) / 6) ** 0.5
    assert factors == pytest.approx({"a": whole / 0.1, "b": whole})
    assert spread_factors({"a": np.array([3.0])}) == {"a": 1.0}
    assert spread_factors({"a": np.zeros(2), "b": np.ones(2)})["a"] == 1.0


class TwoWorlds(ToyRun):
    """Two toy environments, one of which can be broken."""

    def __init__(self, folder: Path, config: RlConfig, broken_every: int = 0) -> None:
        super().__init__(folder, config)
        tables = [toy_table(self.policy), toy_table(self.policy, broken_every=broken_every)]
        tasks = [Task.create("toy", prompt=f"other {i}", data={"number": i}) for i in range(3)]
        self.parts = [Part("a", tables[0], toy_tasks(), 3), Part("b", tables[1], tasks, 1)]


def joint_config(**changes: Any) -> RlConfig:
    settings = changes.pop("mixture", {})
    mixture = {"envs": {"a": {"env": "toy", "weight": 3}, "b": {"env": "toy"}}} | settings
    return make_config(env=None, mixture=mixture, **changes)


async def test_every_environment_is_measured_by_itself(tmp_path: Path) -> None:
    run = TwoWorlds(tmp_path, joint_config(num_updates=4))
    await run.train()
    for row in run.rows:
        for name in ("group/count", "episode/count", "error/total", "group/informative"):
            assert row[f"env/a/{name}"] + row[f"env/b/{name}"] == row[name]
        assert row["env/a/group/count"] >= 2 * row["env/b/group/count"]
        assert row["env/a/share"] == 0.75


@pytest.mark.parametrize("name", ["grpo", "ppo"])
async def test_a_normalised_adaptive_mixture_learns_and_resumes_exactly(
    tmp_path: Path, name: str
) -> None:
    settings = {"normalise": True, "adaptive": {"window": 4, "floor": 0.2}}

    def make(folder: str) -> TwoWorlds:
        changes = {"algorithm": {"name": name}, "mixture": settings, "num_updates": 14}
        return TwoWorlds(tmp_path / folder, joint_config(**changes))

    whole = make("whole")
    await whole.train()
    rewards = [row["reward/mean"] for row in whole.rows]
    assert sum(rewards[-3:]) / 3 > sum(rewards[:3]) / 3 + 0.15, rewards
    assert len({row["env/a/share"] for row in whole.rows}) > 2
    assert all(0.2 <= row["env/b/share"] <= 0.8 for row in whole.rows)
    first = make("parts")
    await first.train(stop_after=9)
    second = make("parts")
    await second.train()
    assert second.weights_hash() == whole.weights_hash()
    shares = [row["env/a/share"] for row in first.rows + second.rows]
    assert shares == [row["env/a/share"] for row in whole.rows]


async def test_a_world_that_is_gone_stops_the_run_though_another_one_plays(tmp_path: Path) -> None:
    run = TwoWorlds(tmp_path, joint_config(num_updates=3), broken_every=1)
    with pytest.raises(EnvError, match="all 8 b episodes of update 1 broke"):
        await run.train()
    assert run.rows == []


def judged(part: str, rewards: tuple[float, ...]) -> JudgedGroup:
    algorithm = make_algorithm(bandit("grpo").algorithm)
    task = toy_tasks(1)[0]
    episodes = tuple(
        make_episode(i, [make_turn((5,), reward)], task=task, name=f"{part}{i}")
        for i, reward in enumerate(rewards)
    )
    group = algorithm.judge(Group(task, episodes), 2)
    return JudgedGroup(group.group, group.rewards, group.kind, group.teaches, part)


async def test_normalising_scales_each_environment_by_its_own_spread(tmp_path: Path) -> None:
    seen: list[float] = []

    class Watched(type(make_algorithm(bandit("grpo").algorithm))):  # type: ignore[misc]
        def objective(self, scored: Any) -> Any:
            seen.extend(scored.advantages_N.tolist())
            return super().objective(scored)

    run = ToyRun(tmp_path, bandit("grpo"))
    groups = [judged("a", (1.0, 0.0)), judged("b", (0.2, 0.0))]
    for is_normalised in (False, True):
        update_policy(
            run.trainer,
            groups,
            Watched(run.config.algorithm),
            update=0,
            seed=0,
            is_normalised=is_normalised,
        )
    # +-0.5 and +-0.1: the spread of all four is sqrt((0.25 + 0.01) / 2).
    assert sorted(seen[:4]) == pytest.approx([-0.5, -0.1, 0.1, 0.5])
    assert sorted(np.abs(seen[4:])) == pytest.approx([0.13**0.5] * 4)


BASE = {"model": {"path": "m"}}
ENVS = {"textcraft": {}, "babyai": {}}


@pytest.mark.parametrize(
    ("kind", "values", "says"),
    [
        (RlConfig, {}, "one of the two"),
        (RlConfig, {"env": "textcraft", "mixture": {"envs": ENVS}}, "one of the two"),
        (RlConfig, {"mixture": {"envs": {"textcraft": {}}}}, "at least 2 items"),
        (RlConfig, {"mixture": {"envs": ENVS}, "panel": "dev"}, "mixture.envs.NAME.panel"),
        (RlConfig, {"mixture": {"envs": ENVS}, "groups": {"variants": 2}}, "NAME.variants"),
        (RlConfig, {"mixture": {"envs": ENVS}, "options": {"a": 1}}, "NAME.options"),
        (
            RlConfig,
            {"mixture": {"envs": {"a": {"wieght": 2}, "b": {}}}},
            "unknown key 'mixture.envs.a.wieght': did you mean 'weight'",
        ),
        (RlConfig, {"mixture": {"envs": {"a/b": {}, "c": {}}}}, "cannot be part of a metric"),
        (RlConfig, {"mixture": {"envs": ENVS, "adaptive": {"floor": 0.6}}}, "lower it"),
        (RlConfig, {"mixture": {"envs": {"a": {"dense": 1}, "b": {}}}}, "pays single turns"),
        (
            RlConfig,
            {
                "mixture": {"envs": {"a": {"horizon": [{"update": 0, "max_turns": 2}]}, "b": {}}},
                "limits": {"max_turns": 3},
            },
            "horizon of a say the same thing",
        ),
        (SftConfig, {"mixture": {"envs": {"a": {"weight": 2}, "b": {}}}}, "are for rl"),
        (SftConfig, {"mixture": {"envs": ENVS, "normalise": True}}, "are for rl"),
        (
            SftConfig,
            {"mixture": {"envs": ENVS}, "demonstrations": {"max_tasks": 3}},
            "NAME.max_tasks",
        ),
    ],
)
def test_contradictions_are_refused(kind: Any, values: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says.replace(".", r"\.")):
        read_config(kind, values=BASE | values)


def test_a_saved_mixture_config_reads_back_the_same() -> None:
    values = BASE | {"mixture": {"envs": {"easy": {"env": "textcraft"}, "babyai": {"weight": 2}}}}
    config = read_config(RlConfig, values=values)
    assert read_config(RlConfig, values=config.model_dump(mode="json")) == config
    assert [part.env for part in config.parts().values()] == ["textcraft", "babyai"]
    changed = read_config(RlConfig, values=values, overrides=["mixture.envs.babyai.weight=5"])
    assert changed.parts()["babyai"].weight == 5
