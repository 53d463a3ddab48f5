"""Statistical tests by simulation: levels, coverage and headlines of studies whose truth is known.

The number of studies is fixed beforehand. A rate may exceed its level by 3 standard errors; the sizes below reject a
test whose true level is 8 % instead of 5 (power .99 at 2000 studies). What does exceed is what a report says.
"""

import math

import pytest

from ablate.design.attainable import LEVEL
from analysis.assumptions import SKEWED_DIFFERENCE, SKEWED_EQUIVALENCE, SKEWED_FAMILY
from analysis.bca import COVERAGE
from benchmarks import simulated_studies as studies
from benchmarks.simulated_studies import BLOCKS, STUDIES, TRUTHS

pytestmark = pytest.mark.slow
SEED = 8
SYMMETRIC = ("normal", "heavy-tailed")


def near(rate, stated):
    """Whether a stated figure, given to a hundredth, lies within 3 standard errors of what was simulated."""
    return abs(rate.share - stated) <= 3 * math.sqrt(stated * (1 - stated) / rate.studies) + 0.005


@pytest.mark.parametrize("blocks", BLOCKS)
@pytest.mark.parametrize("name", SYMMETRIC)
def test_no_test_exceeds_its_attainable_level_where_differences_are_symmetric(name, blocks):
    values = studies.differences(name, blocks, SEED)
    assert not studies.false_difference(values).exceeds(studies.attainable(blocks))
    assert not studies.claims_equivalence(values, 2.0, 2.0).exceeds(LEVEL)
    assert not studies.claims_equivalence(values, -2.0, 2.0).exceeds(LEVEL)
    family = studies.differences(name, blocks, SEED + 1, 3 * STUDIES)
    assert not studies.false_difference_of_any(family, 3).exceeds(LEVEL)


def test_these_sizes_reject_a_test_that_is_too_liberal():
    """A planted bias: normal differences shifted by a quarter of their standard deviation."""
    assert studies.false_difference(studies.differences("normal", 10, SEED) + 0.25).exceeds(studies.attainable(10))


def test_where_differences_are_skewed_the_tests_exceed_by_what_a_report_says():
    drawn = [studies.differences("skewed", blocks, SEED) for blocks in BLOCKS]
    different = [studies.false_difference(values) for values in drawn]
    equivalent = [studies.claims_equivalence(values, 2.0, 2.0) for values in drawn]
    families = [studies.differences("skewed", blocks, SEED + 1, 3 * STUDIES) for blocks in BLOCKS]
    of_three = [studies.false_difference_of_any(family, 3) for family in families]
    for rate, blocks in zip(different, BLOCKS, strict=True):
        assert rate.exceeds(studies.attainable(blocks))
    assert near(max(different, key=lambda rate: rate.count), SKEWED_DIFFERENCE)
    assert near(max(of_three, key=lambda rate: rate.count), SKEWED_FAMILY)
    assert near(max(equivalent, key=lambda rate: rate.count), SKEWED_EQUIVALENCE)
    for values in drawn:  # the short tail's side is safe
        assert not studies.claims_equivalence(values, -2.0, 2.0).exceeds(LEVEL)


@pytest.mark.parametrize("blocks", COVERAGE)
@pytest.mark.parametrize(("name", "which"), [("normal", 0), ("skewed", 1)])
def test_intervals_cover_as_often_as_a_report_says(name, which, blocks):
    rate = studies.mean_coverage(studies.differences(name, blocks, SEED), SEED)
    assert near(rate, COVERAGE[blocks][which]), str(rate)


@pytest.mark.parametrize("blocks", BLOCKS)
@pytest.mark.parametrize("name", SYMMETRIC)
def test_headlines_are_wrong_as_rarely_as_their_tests(name, blocks):
    nothing = studies.headlines(name, blocks, TRUTHS["no gap"], "ROUNDING", SEED)
    assert not studies.Rate(nothing["SYSTEMATIC"], STUDIES).exceeds(studies.attainable(blocks))
    margin = studies.headlines(name, blocks, TRUTHS["a gap of the margin"], "ROUNDING", SEED)
    assert not studies.Rate(margin["CHAOS"], STUDIES).exceeds(LEVEL)


@pytest.mark.parametrize("blocks", BLOCKS)
def test_a_gap_that_one_ulp_makes_too_is_systematic_no_oftener_than_the_test_allows(blocks):
    alike = TRUTHS["a gap of twice the margin, and one ulp does the same"]
    found = studies.headlines("normal", blocks, alike, "ROUNDING", SEED)
    assert not studies.Rate(found["SYSTEMATIC"], STUDIES).exceeds(studies.attainable(blocks))


def test_headlines_find_what_is_there():
    """At 20 blocks: a gap of twice the margin is SYSTEMATIC, none at all is CHAOS, in 19 of 20 studies at least."""
    large = studies.headlines("normal", 20, TRUTHS["a gap of twice the margin"], "ROUNDING", SEED, 300)
    none = studies.headlines("normal", 20, TRUTHS["no gap"], "ROUNDING", SEED, 300)
    assert min(large["SYSTEMATIC"], none["CHAOS"]) >= 285


@pytest.mark.parametrize(("effect", "chance"), [(0.8, 0.90), (1.0, 0.90), (1.5, 0.88)])
def test_blocks_that_a_report_calls_enough_give_nearly_the_chance_of_90_percent(effect, chance):
    """Power is planned with the t test; at 7 blocks, where p has few values, the sign-flip test has 88 % (the page)."""
    blocks = studies.planned_for_difference(effect)
    assert studies.false_difference(studies.differences("normal", blocks, SEED) + effect).share > chance - 3 * 0.0067
    blocks = studies.planned_for_equivalence(effect)
    same = studies.claims_equivalence(studies.differences("normal", blocks, SEED), 0.0, effect)
    assert same.share > 0.90 - 3 * 0.0067
