"""The statistics of an evaluation, as pure functions. Tasks are the unit of chance.

Several samples of one task say little more than one: what varies between evaluations is
which tasks are in the panel. So intervals treat a task with all its samples as one draw,
and two policies are compared task by task. `docs/statistics.md` has the reasons and the
measured coverage.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist

CONFIDENCE = 0.95
POWER = 0.80
_Z = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)
_Z_POWER = NormalDist().inv_cdf(POWER)
_MAX_EXACT_CELLS = 20_000_000
_NUM_RANDOM_FLIPS = 100_000


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its 95 % interval."""

    mean: float
    low: float
    high: float

    def to_json(self) -> dict[str, float]:
        """Write it under the names reports use."""
        return {"mean": self.mean, "low": self.low, "high": self.high}


@dataclass(frozen=True, slots=True)
class Tally:
    """What happened on one task: successes among judged samples."""

    successes: int
    samples: int

    @property
    def rate(self) -> Fraction:
        """Share of samples that succeeded."""
        return Fraction(self.successes, self.samples)


def estimate_success(tallies: Sequence[Tally]) -> Estimate | None:
    """Estimate the success rate: Wilson's interval at the effective number of samples.

    The effective number is what independent samples would have to be to scatter as the
    tasks do: as many as tasks if samples of a task always agree, as many as samples if
    they are independent. None without any task.
    """
    n = len(tallies)
    if n == 0:
        return None
    rates = [float(tally.rate) for tally in tallies]
    mean = math.fsum(rates) / n
    total = sum(tally.samples for tally in tallies)
    if total == n:
        return Estimate(mean, *_wilson(mean, n, _Z))
    variance = math.fsum((rate - mean) ** 2 for rate in rates) / n
    if mean in (0.0, 1.0):
        effective = float(n)  # nothing varies: the samples might as well agree by nature
    else:
        effective = n * mean * (1 - mean) / variance if variance else math.inf
    effective = min(max(effective, n), total)
    return Estimate(mean, *_wilson(mean, effective, _t_quantile(n - 1)))


def estimate_mean(values: Sequence[float]) -> Estimate | None:
    """Estimate a mean over tasks with Student's t; None without any task."""
    n = len(values)
    if n == 0:
        return None
    mean = math.fsum(values) / n
    if n == 1:
        return Estimate(mean, mean, mean)
    variance = math.fsum((value - mean) ** 2 for value in values) / (n - 1)
    half = _t_quantile(n - 1) * math.sqrt(variance / n)
    return Estimate(mean, mean - half, mean + half)


def pass_at(k: int, tallies: Sequence[Tally]) -> float | None:
    """Chance that at least one of k samples succeeds: unbiased, 1 - C(n-c, k) / C(n, k).

    Over the tasks that have at least k samples; None if there are none.
    """
    chances = [
        1 - math.comb(t.samples - t.successes, k) / math.comb(t.samples, k)
        for t in tallies
        if t.samples >= k
    ]
    return math.fsum(chances) / len(chances) if chances else None


def percentile(values: Sequence[int], share: float) -> int:
    """The smallest value that at least this share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


@dataclass(frozen=True, slots=True)
class Comparison:
    """How two policies differ on the same tasks."""

    num_tasks: int
    difference: Estimate
    p_value: float
    test: str
    minimum_detectable: float
    num_better: int
    """Tasks on which the second does better."""
    num_worse: int


def compare_paired(first: Sequence[Tally], second: Sequence[Tally]) -> Comparison:
    """Compare task by task: second minus first, in success rate.

    The interval is Bonett and Price's for paired proportions, written for task means: two
    tasks are added, one won and one lost, so that it does not shrink to nothing when no
    task differs. The p-value is that of the sign-flip permutation test on the task
    differences, exact; with one sample a task it is McNemar's exact test.
    """
    assert len(first) == len(second) > 0, "a paired comparison needs the same tasks twice"
    deltas = [b.rate - a.rate for a, b in zip(first, second, strict=True)]
    n = len(deltas)
    mean = float(sum(deltas)) / n
    squares = float(sum(delta * delta for delta in deltas))
    shrunk = mean * n / (n + 2)
    spread = math.sqrt(max(0.0, (squares + 2) / (n + 2) - shrunk**2) / (n + 2))
    p_value, test = sign_flip_test(deltas)
    finest = max(delta.denominator for delta in deltas)
    return Comparison(
        num_tasks=n,
        difference=Estimate(
            mean,
            min(mean, max(-1.0, shrunk - _Z * spread)),
            max(mean, min(1.0, shrunk + _Z * spread)),
        ),
        p_value=p_value,
        test=test,
        minimum_detectable=min(1.0, max((_Z + _Z_POWER) * spread, _fewest_flips() / (n * finest))),
        num_better=sum(delta > 0 for delta in deltas),
        num_worse=sum(delta < 0 for delta in deltas),
    )


def sign_flip_test(deltas: Sequence[Fraction]) -> tuple[float, str]:
    """Two-sided p-value of the paired permutation test, and the name of the test.

    Under no difference every task's delta might as well have the other sign. The exact
    distribution of the sum over all sign choices is built by adding one task at a time.
    """
    nonzero = [delta for delta in deltas if delta]
    if not nonzero:
        return 1.0, "exact paired permutation"
    unit = math.lcm(*(delta.denominator for delta in nonzero))
    steps = [abs(int(delta * unit)) for delta in nonzero]
    observed = abs(int(sum(nonzero) * unit))
    if len(steps) * sum(steps) > _MAX_EXACT_CELLS:
        return _random_flips(steps, observed), "paired permutation (100,000 draws)"
    p_value = _exact_flips(steps, observed)
    name = "exact McNemar" if set(steps) == {unit} else "exact paired permutation"
    return p_value, name


def _exact_flips(steps: Sequence[int], observed: int) -> float:
    import numpy as np

    # chances[i] is the chance of the sum i - total; each task moves it up or down.
    total = sum(steps)
    chances = np.zeros(2 * total + 1)
    chances[total] = 1.0
    for step in steps:
        moved = np.zeros_like(chances)
        moved[step:] += 0.5 * chances[: len(chances) - step]
        moved[: len(chances) - step] += 0.5 * chances[step:]
        chances = moved
    sums = np.abs(np.arange(-total, total + 1))
    return min(1.0, float(chances[sums >= observed].sum()))


def _random_flips(steps: Sequence[int], observed: int) -> float:
    import numpy as np

    rng = np.random.default_rng(0)
    sizes = np.asarray(steps, dtype=np.int64)
    hits = 0
    for _ in range(_NUM_RANDOM_FLIPS // 1000):
        signs = rng.choice(np.array([-1, 1]), size=(1000, len(sizes)))
        hits += int((np.abs(signs @ sizes) >= observed).sum())
    return (hits + 1) / (_NUM_RANDOM_FLIPS + 1)


def _fewest_flips() -> int:
    """How many tasks must differ, all one way, before the exact test can reject."""
    count = 1
    while 2 * 0.5**count > 1 - CONFIDENCE:
        count += 1
    return count


def _wilson(mean: float, n: float, z: float) -> tuple[float, float]:
    scale = 1 + z * z / n
    centre = (mean + z * z / (2 * n)) / scale
    half = z / scale * math.sqrt(mean * (1 - mean) / n + z * z / (4 * n * n))
    # Rounding must not push the bound past the value it bounds, as at 0 of n.
    return min(mean, max(0.0, centre - half)), max(mean, min(1.0, centre + half))


def _t_quantile(degrees: int) -> float:
    """Student's two-sided 95 % quantile, by Cornish and Fisher's expansion."""
    z, d = _Z, float(max(degrees, 3))  # below 3 the expansion is no longer close
    return (
        z
        + (z**3 + z) / (4 * d)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * d**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * d**3)
    )
