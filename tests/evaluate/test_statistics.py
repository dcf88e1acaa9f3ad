"""Intervals cover what they should, tests reject no more than they may; values by hand."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from practicum.evaluate.statistics import (
    Tally,
    compare_paired,
    estimate_mean,
    estimate_success,
    pass_at,
    percentile,
    sign_flip_test,
)

NUM_EVALUATIONS = 1000
RATES = (0.1, 0.3, 0.5, 0.9)


def draw_tallies(rng: np.random.Generator, rates: np.ndarray, num_samples: int) -> list[Tally]:
    return [Tally(int(wins), num_samples) for wins in rng.binomial(num_samples, rates)]


def draw_rates(rng: np.random.Generator, num_tasks: int, rate: float, spread: float) -> np.ndarray:
    """Task success rates with a known mean: the smaller `spread`, the more they differ."""
    return rng.beta(rate * spread, (1 - rate) * spread, size=num_tasks)


@pytest.mark.parametrize(
    ("num_tasks", "num_samples", "spread"),
    [
        (81, 1, 2.0),
        (81, 4, 0.3),
        (81, 4, 2.0),
        (81, 8, 0.5),
        (81, 8, 50.0),
        (141, 1, 2.0),
        (141, 4, 1.0),
        (141, 8, 0.5),
    ],
)
def test_intervals_cover_the_known_rate(num_tasks: int, num_samples: int, spread: float) -> None:
    rng = np.random.default_rng(num_tasks + num_samples)
    covered = 0
    for rate in RATES:
        for _ in range(NUM_EVALUATIONS):
            rates = draw_rates(rng, num_tasks, rate, spread)
            estimate = estimate_success(draw_tallies(rng, rates, num_samples))
            assert estimate is not None
            covered += estimate.low <= rate <= estimate.high
    assert 0.93 <= covered / (len(RATES) * NUM_EVALUATIONS) <= 0.97


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("num_tasks", [81, 141, 544])
def test_coverage_with_one_sample_a_task_is_known_exactly(num_tasks: int, rate: float) -> None:
    covered = 0.0
    for wins in range(num_tasks + 1):
        estimate = estimate_success([Tally(1, 1)] * wins + [Tally(0, 1)] * (num_tasks - wins))
        assert estimate is not None
        if estimate.low <= rate <= estimate.high:
            chance = math.comb(num_tasks, wins) * rate**wins * (1 - rate) ** (num_tasks - wins)
            covered += chance
    assert 0.93 <= covered <= 0.97


@pytest.mark.parametrize(("num_samples", "spread"), [(1, 1.0), (4, 0.3), (4, 2.0)])
def test_equal_policies_are_told_apart_in_at_most_one_of_twenty(
    num_samples: int, spread: float
) -> None:
    rng = np.random.default_rng(7)
    rejected = 0
    for _ in range(NUM_EVALUATIONS):
        rates = draw_rates(rng, 81, 0.5, spread)
        comparison = compare_paired(
            draw_tallies(rng, rates, num_samples), draw_tallies(rng, rates, num_samples)
        )
        rejected += comparison.p_value < 0.05
    # At exactly 5 % a thousand tries give up to 6.4 % by chance; the exact test stays below.
    assert rejected / NUM_EVALUATIONS <= 0.05


def test_the_interval_of_the_difference_covers_it() -> None:
    rng = np.random.default_rng(3)
    covered = 0
    for _ in range(NUM_EVALUATIONS):
        first = draw_rates(rng, 100, 0.4, 1.0)
        # The second policy does a fifth worse on every task: -0.08 in the mean.
        comparison = compare_paired(draw_tallies(rng, first, 4), draw_tallies(rng, 0.8 * first, 4))
        covered += comparison.difference.low <= -0.08 <= comparison.difference.high
    assert 0.93 <= covered / NUM_EVALUATIONS <= 0.98


def test_a_true_difference_of_the_size_named_is_found_four_times_in_five() -> None:
    rng = np.random.default_rng(5)
    found, named = 0, []
    for _ in range(NUM_EVALUATIONS):
        base = rng.random(141) < 0.5
        # Won on 28 % of the failures, lost on 8 % of the successes: 10 points in the mean.
        second = np.where(base, rng.random(141) >= 0.08, rng.random(141) < 0.28)
        comparison = compare_paired(
            [Tally(int(win), 1) for win in base], [Tally(int(win), 1) for win in second]
        )
        found += comparison.p_value < 0.05
        named.append(comparison.minimum_detectable)
    assert np.median(named) == pytest.approx(0.10, abs=0.01)
    assert 0.70 <= found / NUM_EVALUATIONS <= 0.88


def test_one_sample_a_task_gives_wilsons_interval() -> None:
    estimate = estimate_success([Tally(1, 1)] * 7 + [Tally(0, 1)] * 3)
    assert estimate is not None
    # Worked out by hand: n = 10, p = 0.7, z = 1.959964.
    assert estimate.mean == pytest.approx(0.7)
    assert estimate.low == pytest.approx(0.396780, abs=1e-5)
    assert estimate.high == pytest.approx(0.892211, abs=1e-5)


def test_no_success_and_all_success_have_an_honest_interval() -> None:
    none, every = (estimate_success([Tally(w, 1)] * 81) for w in (0, 1))
    assert none is not None and every is not None
    assert (none.mean, none.low) == (0.0, 0.0)
    assert none.high == pytest.approx(0.0453, abs=1e-4)
    assert (every.mean, every.high) == (1.0, 1.0)
    assert every.low == pytest.approx(1 - 0.0453, abs=1e-4)


def test_samples_that_always_agree_count_as_one() -> None:
    single = estimate_success([Tally(1, 1)] * 50 + [Tally(0, 1)] * 50)
    eight = estimate_success([Tally(8, 8)] * 50 + [Tally(0, 8)] * 50)
    assert single is not None and eight is not None
    assert eight.high - eight.low == pytest.approx(single.high - single.low, rel=0.03)


def test_independent_samples_narrow_the_interval() -> None:
    tallies = [Tally(4, 8)] * 100
    wide, narrow = estimate_success([Tally(1, 1), Tally(0, 1)] * 50), estimate_success(tallies)
    assert wide is not None and narrow is not None
    assert narrow.high - narrow.low < 0.8 * (wide.high - wide.low)


@given(
    st.lists(
        st.integers(1, 8).flatmap(lambda n: st.builds(Tally, st.integers(0, n), st.just(n))),
        min_size=1,
        max_size=30,
    )
)
def test_an_interval_always_holds_its_mean(tallies: list[Tally]) -> None:
    estimate = estimate_success(tallies)
    assert estimate is not None
    assert 0 <= estimate.low <= estimate.mean <= estimate.high <= 1
    comparison = compare_paired(tallies, list(reversed(tallies)))
    assert comparison.difference.low <= comparison.difference.mean <= comparison.difference.high
    assert 0 < comparison.p_value <= 1


def test_nothing_judged_gives_no_estimate() -> None:
    assert estimate_success([]) is None
    assert estimate_mean([]) is None
    assert pass_at(1, []) is None


def test_pass_at_is_unbiased() -> None:
    # 1 - C(3, 2) / C(5, 2) = 1 - 3/10, by hand.
    assert pass_at(2, [Tally(2, 5)]) == pytest.approx(0.7)
    assert pass_at(1, [Tally(2, 5), Tally(5, 5)]) == pytest.approx(0.7)
    assert pass_at(5, [Tally(1, 5)]) == 1.0
    assert pass_at(6, [Tally(5, 5)]) is None


def test_pass_at_agrees_with_enumeration() -> None:
    outcomes = [True, True, False, False, False, False]
    draws = [c for c in product(range(6), repeat=3) if len(set(c)) == 3]
    share = sum(any(outcomes[i] for i in c) for c in draws) / len(draws)
    assert pass_at(3, [Tally(2, 6)]) == pytest.approx(share)


def test_mcnemar_by_hand() -> None:
    # 9 tasks won, 1 lost: p = 2 * (C(10,0) + C(10,1)) / 2^10 = 22/1024.
    deltas = [Fraction(1)] * 9 + [Fraction(-1)] + [Fraction(0)] * 50
    assert sign_flip_test(deltas) == (pytest.approx(22 / 1024), "exact McNemar")


def test_the_permutation_test_agrees_with_enumeration() -> None:
    deltas = [Fraction(n, 4) for n in (3, 1, -1, 2, 4, -2, 1)]
    sums = [sum(s * d for s, d in zip(signs, deltas, strict=True)) for signs in
            product((-1, 1), repeat=len(deltas))]  # fmt: skip
    expected = sum(abs(total) >= abs(sum(deltas)) for total in sums) / len(sums)
    p_value, name = sign_flip_test(deltas)
    assert p_value == pytest.approx(expected)
    assert name == "exact paired permutation"


def test_no_difference_anywhere_is_no_evidence() -> None:
    same = [Tally(1, 1), Tally(0, 1)]
    comparison = compare_paired(same, same)
    assert comparison.p_value == 1.0
    assert comparison.difference.mean == 0.0
    assert comparison.difference.low < 0 < comparison.difference.high


def test_a_huge_comparison_falls_back_to_drawing() -> None:
    rng = np.random.default_rng(0)
    sizes = (7, 11, 13, 17, 19)
    deltas = [Fraction(int(rng.integers(-3, 6)), sizes[i % 5]) for i in range(200)]
    p_value, name = sign_flip_test(deltas)
    assert "draws" in name
    assert 0 < p_value <= 1


def test_the_mean_of_one_task_has_no_spread() -> None:
    estimate = estimate_mean([0.5])
    assert estimate is not None
    assert (estimate.low, estimate.high) == (0.5, 0.5)


def test_the_mean_has_students_interval() -> None:
    estimate = estimate_mean([1.0, 2.0, 3.0, 4.0, 5.0])
    assert estimate is not None
    # t(4) = 2.7764, s = sqrt(2.5): 3 ± 2.7764 * sqrt(2.5 / 5).
    assert estimate.high == pytest.approx(3 + 2.7764 * math.sqrt(0.5), abs=0.02)


def test_percentiles_are_values_that_occurred() -> None:
    assert percentile([5, 1, 2, 3, 4], 0.95) == 5
    assert percentile(list(range(1, 101)), 0.95) == 95
    assert percentile([7], 0.95) == 7
