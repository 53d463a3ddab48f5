import math
import random

import numpy as np
import pytest
from references import loop_bca
from synthetic import generator

from analysis.bca import FEWEST, RESAMPLES, mean_interval, ratio_interval


def mean_of(blocks):
    return math.fsum(block[0] for block in blocks) / len(blocks)


def ratio_of(blocks):
    return math.fsum(block[1] for block in blocks) / math.fsum(block[0] for block in blocks) - 1


@pytest.mark.parametrize("n", [3, 6, 12])
def test_mean_interval_equals_a_loop_over_resamples(n):
    differences = generator("bca", n).lognormal(0.0, 1.0, n)
    low, high = loop_bca([(d,) for d in differences], mean_of, seed=3, resamples=RESAMPLES)
    interval = mean_interval(differences, seed=3)
    assert (interval.low, interval.high) == pytest.approx((low, high), rel=1e-9)
    assert interval.method == f"BCa, {RESAMPLES} resamples of {n} blocks, seed 3"


@pytest.mark.parametrize("n", [4, 8])
def test_ratio_interval_resamples_pairs_together(n):
    draws = generator("ratio", n)
    reference = draws.lognormal(0.0, 0.5, n)
    other = reference * draws.lognormal(0.3, 0.1, n)
    low, high = loop_bca(list(zip(reference, other, strict=True)), ratio_of, seed=5, resamples=RESAMPLES)
    interval = ratio_interval(reference, other, seed=5)
    assert (interval.low, interval.high) == pytest.approx((low, high), rel=1e-9)


def test_same_seed_same_bytes_other_seed_other_bytes_global_state_untouched():
    differences = generator("seed").normal(0.0, 1.0, 7)
    before = np.random.get_state()[1].tobytes(), random.getstate()
    first, again, other = (mean_interval(differences, seed) for seed in (1, 1, 2))
    assert (np.random.get_state()[1].tobytes(), random.getstate()) == before
    assert first == again
    assert first.low != other.low


def test_covers_a_known_mean_about_as_often_as_its_docstring_says():
    draws, covered = generator("coverage"), 0
    for _ in range(200):
        interval = mean_interval(draws.normal(2.0, 1.0, 20))
        covered += not interval.excludes(2.0)
    assert 0.87 <= covered / 200 <= 0.98  # 93 % +- 3.3 standard errors


def test_a_planted_gap_is_outside():
    assert mean_interval(generator("planted").normal(1.0, 1.0, 30)).excludes(0.0)


@pytest.mark.parametrize("n", range(FEWEST))
def test_too_few_blocks_give_no_interval(n):
    for interval in (mean_interval(np.ones(n)), ratio_interval(np.ones(n), np.ones(n))):
        assert (interval.low, interval.high) == (None, None)
        assert interval.method == f"no interval: {n} of at least 3 blocks"
        assert not interval.excludes(5.0)


def test_equal_differences_and_zeros_are_a_point():
    for value in (0.0, -0.25):
        interval = mean_interval(np.full(6, value))
        assert (interval.low, interval.high) == (value, value)
        assert interval.method == "all differences equal: no spread to resample"
    ratio = ratio_interval(np.array([1.0, 2.0, 4.0]), np.array([2.0, 4.0, 8.0]))
    assert (ratio.low, ratio.high, ratio.method) == (1.0, 1.0, "all ratios equal: no spread to resample")


def test_no_percentage_without_a_positive_reference():
    interval = ratio_interval(np.array([1.0, -1.0, 2.0]), np.array([1.0, 1.0, 2.0]))
    assert interval.low is None
    assert interval.method == "no percentage: the reference's outcomes are not all above zero, or next to it"


def test_extreme_and_nearly_equal_differences_give_finite_ends():
    almost = np.array([1.0, 1.0, np.nextafter(1.0, 2.0)])
    for differences in (
        almost,
        np.array([1e300, 2e300, -1e300]),
        np.array([5e-324, 0.0, 5e-324]),
        np.array([0.0, 0, 1]),
    ):
        interval = mean_interval(differences)
        assert np.isfinite([interval.low, interval.high]).all()
        assert interval.low <= np.median(differences) <= interval.high
    assert mean_interval(almost).method.startswith("percentile (BCa's correction is not finite here)")
