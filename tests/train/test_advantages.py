"""Advantages are what the arithmetic says, and broken episodes have no say."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from practicum.train.advantages import group_advantages

REWARDS = st.floats(-2, 2).map(lambda x: round(x, 3))
MEMBERS = st.lists(st.one_of(st.none(), REWARDS), max_size=12)
SCALES = st.sampled_from(["none", "std"])


def test_rewards_are_centred_on_the_mean_of_their_group() -> None:
    # The mean of 1, 0, 0, 0.6 is 1.6 / 4 = 0.4.
    group = group_advantages([1.0, 0.0, 0.0, 0.6])
    np.testing.assert_allclose(group.values, [0.6, -0.4, -0.4, 0.2], atol=1e-15)
    assert group.is_counted.all()
    assert group.is_informative


def test_a_broken_episode_is_left_out_of_the_mean_and_gets_nothing() -> None:
    # The mean of 1 and 0 is 0.5; counting the broken one as 0 would give 1/3.
    group = group_advantages([1.0, None, 0.0])
    np.testing.assert_array_equal(group.values, [0.5, 0.0, -0.5])
    np.testing.assert_array_equal(group.is_counted, [True, False, True])


def test_scaling_divides_by_the_sample_deviation() -> None:
    # 1, 0, 0, 0 around 1/4: squares 9/16 + 3 * 1/16 = 12/16, over n - 1 = 3 gives 1/4,
    # whose root is 1/2; 0.75 / (0.5 + 0.0001) and -0.25 / (0.5 + 0.0001).
    group = group_advantages([1.0, 0.0, 0.0, 0.0], scale="std")
    np.testing.assert_allclose(group.values, [0.75 / 0.5001] + 3 * [-0.25 / 0.5001], rtol=1e-12)


def test_worse_members_can_weigh_less_or_nothing() -> None:
    # Around 0.4, as above; what is below zero is halved, then left out.
    group = group_advantages([1.0, 0.0, None, 0.0, 0.6], negative_weight=0.5)
    np.testing.assert_allclose(group.values, [0.6, -0.2, 0, -0.2, 0.2], atol=1e-15)
    np.testing.assert_array_equal(group.is_counted, [True, True, False, True, True])
    group = group_advantages([1.0, 0.0, None, 0.0, 0.6], negative_weight=0)
    np.testing.assert_allclose(group.values, [0.6, 0, 0, 0, 0.2], atol=1e-15)
    np.testing.assert_array_equal(group.is_counted, [True, False, False, False, True])


@pytest.mark.parametrize(
    ("rewards", "kind"),
    [
        ([1.0, 1.0], "all-success"),
        ([1.0, None, 1.0], "all-success"),
        ([0.0, 0.0, 0.0], "all-failure"),
        ([-1.0, -1.0], "all-failure"),
        ([0.3, 0.3], "equal"),
        ([0.3, 0.1 + 0.2], "equal"),
        ([1.0, None], "too-few"),
        ([None, None], "too-few"),
        ([], "too-few"),
        ([1.0, 0.0], "informative"),
    ],
)
def test_a_group_that_teaches_nothing_says_why(rewards: list[float | None], kind: str) -> None:
    group = group_advantages(rewards, scale="std")
    assert group.kind == kind
    assert group.is_informative == bool(group.values.any())
    assert len(group.values) == len(group.is_counted) == len(rewards)


@pytest.mark.parametrize("reward", [math.nan, math.inf])
def test_a_reward_that_is_no_number_is_refused(reward: float) -> None:
    with pytest.raises(ValueError, match="of group member 1 is not a finite number"):
        group_advantages([0.0, reward])


@given(MEMBERS, SCALES)
def test_advantages_sum_to_zero(rewards: list[float | None], scale: str) -> None:
    group = group_advantages(rewards, scale=scale)
    assert abs(math.fsum(group.values)) < 1e-9


@given(MEMBERS, SCALES, st.randoms(use_true_random=False))
def test_the_order_of_members_does_not_matter(rewards, scale, random) -> None:
    order = list(range(len(rewards)))
    random.shuffle(order)
    straight = group_advantages(rewards, scale=scale)
    shuffled = group_advantages([rewards[i] for i in order], scale=scale)
    np.testing.assert_array_equal(shuffled.values, straight.values[order])
    assert shuffled.kind == straight.kind


@given(MEMBERS, SCALES, st.integers(0, 12))
def test_a_broken_episode_changes_nothing_for_the_others(rewards, scale, place) -> None:
    place = min(place, len(rewards))
    without = group_advantages(rewards, scale=scale)
    with_broken = group_advantages([*rewards[:place], None, *rewards[place:]], scale=scale)
    np.testing.assert_array_equal(np.delete(with_broken.values, place), without.values)
    assert with_broken.values[place] == 0 and not with_broken.is_counted[place]
    assert with_broken.kind == without.kind


@given(MEMBERS, st.floats(-1, 1))
def test_only_differences_of_rewards_count(rewards: list[float | None], shift: float) -> None:
    moved = [None if reward is None else reward + shift for reward in rewards]
    np.testing.assert_allclose(
        group_advantages(moved).values, group_advantages(rewards).values, atol=1e-9
    )
