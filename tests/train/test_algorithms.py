"""Every algorithm learns a game that takes seconds; one with its sign turned round does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from train.test_loop import ToyRun, make_config

from practicum.core.episode import Completion, Episode, Group, StopReason, Turn
from practicum.core.message import Action, Observation
from practicum.core.reward import Reward
from practicum.core.task import Task
from practicum.train import update
from practicum.train.algorithms import ALGORITHMS, make_algorithm
from practicum.train.algorithms.base import Tokens
from practicum.train.batch import episode_samples
from practicum.train.trainer import Scored

OPTIONS: dict[str, dict[str, Any]] = {
    "grpo": {},
    "dr_grpo": {"episode_tokens": 2},
    "rloo": {},
    "reinforce_pp": {},
    "dapo": {},
    "gspo": {},
    "gigpo": {},
    "ppo": {},
}
VARIANTS = [
    *((name, {}) for name in OPTIONS),
    ("grpo", {"scale": "std"}),
    ("grpo", {"negative_weight": 0.0}),
    ("reinforce_pp", {"baseline": "group"}),
    ("reinforce_pp", {"kl": 0.001}),
    ("dapo", {"mask_cut": True, "overlong": {"max_tokens": 8, "buffer": 4}}),
    ("gigpo", {"scale": "std"}),
    ("ppo", {"level": "token"}),
    ("ppo", {"epochs": 2, "minibatches": 2}),
    ("gspo", {"epochs": 2, "clip_low": 0.2, "clip_high": 0.2}),
]


def bandit(name: str, **options: Any) -> Any:
    return make_config(
        algorithm={"name": name, **OPTIONS[name], **options},
        optimizer={"learning_rate": 0.02},
        groups={"size": 8, "per_update": 8, "max_per_update": 8},
        num_updates=30,
    )


def test_every_algorithm_is_tried() -> None:
    assert set(OPTIONS) == set(ALGORITHMS)


@pytest.mark.parametrize(("name", "options"), VARIANTS)
async def test_learns_a_bandit(tmp_path: Path, name: str, options: dict[str, Any]) -> None:
    run = ToyRun(tmp_path, bandit(name, **options))
    await run.train()
    rewards = [row["reward/mean"] for row in run.rows]
    assert rewards[0] < 0.7
    assert sum(rewards[-3:]) / 3 >= 0.95, rewards


@pytest.mark.parametrize("name", list(OPTIONS))
async def test_a_turned_sign_is_noticed(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = ALGORITHMS[name]
    objective = kind.objective

    def turned(self: Any, scored: Scored) -> Any:
        loss_N, reported = objective(self, scored)
        return -loss_N, reported

    monkeypatch.setattr(kind, "objective", turned)
    run = ToyRun(tmp_path, bandit(name))
    await run.train(stop_after=10)
    rewards = [row["reward/mean"] for row in run.rows]
    assert sum(rewards[-3:]) / 3 < rewards[0], rewards


async def test_a_value_head_survives_a_stop(tmp_path: Path) -> None:
    config = bandit("ppo").model_copy(update={"num_updates": 5})
    whole = ToyRun(tmp_path / "whole", config)
    await whole.train()
    await ToyRun(tmp_path / "parts", config).train(stop_after=3)
    second = ToyRun(tmp_path / "parts", config)
    await second.train()
    assert second.weights_hash() == whole.weights_hash()


def make_turn(ids: tuple[int, ...], reward: float = 0.0, state: str = "s") -> Turn:
    said = Completion("x", prompt_token_ids=(1,), token_ids=ids, logprobs=(-1.0,) * len(ids))
    return Turn(Observation("o"), said, Action("a"), reward=reward, state=state)


TASK = Task.create("toy", prompt="p", data={})


def make_episode(
    sample: int,
    turns: list[Turn],
    stop: StopReason = StopReason.DONE,
    task: Task = TASK,
    name: str = "",
) -> Episode:
    total = sum(turn.reward for turn in turns)
    return Episode(
        id=name or f"e{sample}",
        task_id=task.id,
        env_id="toy",
        sample=sample,
        seed=0,
        system="",
        turns=tuple(turns),
        final=None,
        stop=stop,
        reward=Reward(total, total >= 1),
    )


def algorithm(name: str, **options: Any) -> Any:
    return make_algorithm(bandit(name, **options).algorithm)


def credit(name: str, episodes: list[Episode], **options: Any) -> list[tuple[float, ...]]:
    chosen = algorithm(name, **options)
    judged = chosen.judge(Group(TASK, tuple(episodes)), 2)
    return [one.advantages for one in chosen.credit([judged])]


def test_a_mistake_on_the_way_to_success_is_praised_less_if_asked() -> None:
    refused = replace(make_turn((5, 6)), is_refused=True)
    won, lost = (make_episode(i, [refused, make_turn((7,), r)]) for i, r in enumerate((1.0, 0.0)))
    # Rewards 1 and 0 are centred to 0.5 and -0.5.
    assert credit("grpo", [won, lost]) == [(0.5,) * 2, (-0.5,) * 2]
    assert credit("grpo", [won, lost], refused_weight=0.25) == [(0.125, 0.5), (-0.5, -0.5)]


def test_rloo_compares_each_with_the_others() -> None:
    episodes = [make_episode(i, [make_turn((5,), reward)]) for i, reward in enumerate((1, 0, 0.5))]
    # Others of 1: 0.25; of 0: 0.75; of 0.5: 0.5.
    assert credit("rloo", episodes) == [(0.75,), (-0.75,), (0.0,)]


def test_dapo_punishes_the_overlong_and_can_leave_out_what_was_cut() -> None:
    long = make_episode(0, [make_turn((5,) * 7, 1.0)])
    short = make_episode(1, [make_turn((5,), 0.0)])
    cut = make_episode(2, [make_turn((5,), 0.0)], stop=StopReason.TURN_LIMIT)
    options = {"scale": "none", "overlong": {"max_tokens": 8, "buffer": 4, "penalty": 1.0}}
    # 7 tokens are 3 of 4 into the buffer: 1 - 0.75 = 0.25 against 0 and 0.
    found = credit("dapo", [long, short, cut], **options)
    assert [round(a, 6) for (a,) in found] == [round(0.25 * 2 / 3, 6)] + [round(-0.25 / 3, 6)] * 2
    found = credit("dapo", [long, short, cut], mask_cut=True, **options)
    assert [a for (a,) in found] == [0.125, -0.125]


def test_gigpo_adds_what_a_turn_was_worth_in_its_state() -> None:
    good = make_episode(0, [make_turn((5,), 0.0, "a"), make_turn((5,), 1.0, "b")])
    bad = make_episode(1, [make_turn((5,), 0.0, "a"), make_turn((5,), 0.0, "c")])
    # Episodes: +-0.5. State a: returns 0.5 (discounted) and 0, so +-0.25. b and c: met once.
    assert credit("gigpo", [good, bad], gamma=0.5) == [(0.75, 0.5), (-0.75, -0.5)]
    assert credit("gigpo", [good, bad], step_weight=0.0) == [(0.5, 0.5), (-0.5, -0.5)]


def test_reinforce_pp_credits_what_is_still_to_come() -> None:
    first = make_episode(0, [make_turn((5,), 0.5), make_turn((5,), 0.5)])
    second = make_episode(1, [make_turn((5,), 0.0), make_turn((5,), 0.0)])
    assert credit("reinforce_pp", [first, second]) == [(1.0, 0.5), (0.0, 0.0)]
    assert credit("reinforce_pp", [first, second], baseline="group") == [(0.5, 0.0), (-0.5, -0.5)]


def test_reinforce_pp_takes_the_divergence_off_before_it_standardises() -> None:
    tokens = _tokens(advantages=[1.0, 1.0], start=[-1.0, -1.0], reference=[-2.0, -1.0])
    other = _tokens(advantages=[0.0, 0.0], start=[-1.0, -1.0], reference=[-1.0, -1.0])
    algorithm("reinforce_pp", kl=0.5).finish([tokens, other])
    # The first token's rest diverges by 1: 1 - 0.5; then 0.5, 1, 0, 0 around 0.375 with the
    # sample deviation sqrt((0.015625 + 0.390625 + 2 * 0.140625) / 3) = 0.478714.
    found = [*tokens.advantages_T, *other.advantages_T]
    expected = [0.125 / 0.478714, 0.625 / 0.478714] + 2 * [-0.375 / 0.478714]
    assert found == pytest.approx(expected, rel=1e-5)


def _tokens(advantages: list[float], **known: list[float]) -> Tokens:
    arrays = {name: np.array(values) for name, values in known.items()}
    turns = np.arange(len(advantages))
    return Tokens(turns, np.zeros(len(advantages)), np.array(advantages), arrays)


def test_ppo_hands_credit_over_turns_or_over_tokens() -> None:
    def estimate(level: str) -> Tokens:
        tokens = Tokens(
            np.array([0, 0, 1]),
            np.array([0.0, 0.0, 1.0]),
            np.zeros(3),
            {"values": np.array([0.5, 0.6, 0.8])},
        )
        algorithm("ppo", level=level, whiten=False, gamma=1.0, gae_lambda=0.5).finish([tokens])
        return tokens

    # Turns: the last is worth 1 - 0.8 = 0.2, the first 0.8 - 0.5 + 0.5 * 0.2 = 0.4.
    turns = estimate("turn")
    assert turns.advantages_T == pytest.approx([0.4, 0.4, 0.2])
    assert turns.found["returns"] == pytest.approx([0.9, 0.9, 1.0])
    assert turns.found["step_weight"] == pytest.approx([1.5, 0.0, 1.5])
    # Tokens: 0.2; 0.8 - 0.6 + 0.5 * 0.2 = 0.3; 0.6 - 0.5 + 0.5 * 0.3 = 0.25.
    tokens = estimate("token")
    assert tokens.advantages_T == pytest.approx([0.25, 0.3, 0.2])
    assert tokens.found["returns"] == pytest.approx([0.75, 0.9, 1.0])


@pytest.mark.parametrize("empty", [0, 1, 2])
def test_what_a_turn_without_tokens_earned_is_not_lost(empty: int) -> None:
    turns = [make_turn(() if n == empty else (5, 6), reward=0.5 * n) for n in range(3)]
    samples = episode_samples(make_episode(0, turns), (0.0,) * 3)
    earned = [float(r) for sample in samples for r in sample.rewards[sample.is_trained] if r]
    assert earned == {0: [0.5, 1.0], 1: [0.5, 1.0], 2: [1.5]}[empty]


def test_dr_grpo_divides_by_a_constant_for_each_episode() -> None:
    chosen = algorithm("dr_grpo", episode_tokens=100)
    episodes = [make_episode(i, [make_turn((5,) * (i + 1), float(i))]) for i in range(2)]
    judged = chosen.judge(Group(TASK, tuple(episodes)), 2)
    samples = [
        s for c in chosen.credit([judged]) for s in update.episode_samples(c.episode, c.advantages)
    ]
    assert chosen.normaliser(samples) == 200


@pytest.mark.parametrize(("name", "is_mean"), [("rloo", False), ("gspo", True)])
def test_whole_episodes_have_one_ratio(name: str, is_mean: bool) -> None:
    # Sequence 0: log ratios 0.1 and 0.3; sequence 1: -0.2. Advantages 1 and -2.
    scored = Scored(
        torch.tensor([-0.9, -0.7, -1.2], requires_grad=True),
        torch.zeros(3),
        torch.full((3,), -1.0),
        torch.tensor([1.0, 1.0, -2.0]),
        {"start": torch.full((3,), -1.0)},
        torch.tensor([0, 0, 1]),
    )
    chosen = algorithm(name, clip_low=0.5, clip_high=0.5)
    loss_N, _ = chosen.objective(scored)
    first = torch.tensor(0.2 if is_mean else 0.4).exp()
    expected = -first + 2 * torch.tensor(-0.2).exp()
    assert loss_N.sum().item() == pytest.approx(expected.item(), abs=1e-6)
    assert loss_N[0].item() == pytest.approx(loss_N[1].item(), abs=1e-6)
