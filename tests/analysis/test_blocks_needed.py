import numpy as np
import pytest
from synthetic import generator

from ablate.design.spec import Margin
from analysis.blocks_needed import for_difference, for_equivalence
from analysis.tost import equivalence


def spread_of_one(n):
    """Return n numbers with mean 0 and sample standard deviation 1."""
    values = generator("spread", n).normal(size=n)
    values -= values.mean()
    return values / values.std(ddof=1)


@pytest.mark.parametrize("ratio", [0.5, 1.0, 2.0])
def test_tost_reaches_its_power_at_that_many_blocks_and_not_far_below(ratio):
    n = for_equivalence(np.zeros(8), spread_of_one(8), Margin(value=ratio))
    draws, margin = generator("power", ratio), Margin(value=ratio)

    def power(blocks):
        gaps = draws.normal(0.0, 1.0, (2000, blocks))
        return np.mean([equivalence(np.zeros(blocks), gap, margin).equivalent for gap in gaps])

    assert power(n) >= 0.90 - 3 * 0.0067
    assert power(max(2, round(0.75 * n))) < 0.90 - 3 * 0.0067


def test_close_to_the_closed_form_when_many():
    n = for_equivalence(np.zeros(8), spread_of_one(8), Margin(value=0.05))
    assert n == pytest.approx(10.82 * 400, rel=0.01)


def test_percent_margin_uses_the_reference_mean():
    reference = np.full(8, 10.0)
    relative = for_equivalence(reference, reference + spread_of_one(8), Margin(value=10.0, unit="percent"))
    assert relative == for_equivalence(reference, reference + spread_of_one(8), Margin(value=1.0))


def test_difference_needs_more_blocks_in_a_larger_family():
    gap = spread_of_one(8) + 1.0
    alone, crowded = for_difference(gap, 1), for_difference(gap, 10)
    assert alone == 13  # t test, effect 1, two-sided .05, power .90: 13 in any power table
    assert crowded > alone


def test_a_huge_effect_still_needs_enough_sign_patterns():
    assert for_difference(spread_of_one(8) + 1000.0, 1) == 6


def test_nothing_to_plan_with():
    zeros = np.zeros(5)
    assert for_equivalence(zeros, zeros, Margin(value=1.0)) is None
    assert for_equivalence(zeros[:1], zeros[:1], Margin(value=1.0)) is None
    assert for_equivalence(-np.ones(5), spread_of_one(5), Margin(value=1.0, unit="percent")) is None
    assert for_equivalence(zeros, spread_of_one(5), Margin(value=1e-6)) is None  # more than MOST
    assert for_difference(zeros, 1) is None
    assert for_difference(zeros + 1, 1) is None
    assert for_difference(spread_of_one(5), 1) is None or for_difference(spread_of_one(5), 1) > 10_000
