import numpy as np
import pytest
from references import one_sided_t
from synthetic import generator

from ablate.design.spec import Margin
from analysis.tost import equivalence

REFERENCE = np.array([1.0, 1.2, 0.9, 1.1, 1.05])
OTHER = np.array([1.02, 1.19, 0.93, 1.08, 1.07])


def test_absolute_margin_by_hand():
    gap = OTHER - REFERENCE
    found = equivalence(REFERENCE, OTHER, Margin(value=0.05))
    assert found.p == pytest.approx(max(one_sided_t(0.05 - gap), one_sided_t(0.05 + gap)), rel=1e-9)
    assert (found.equivalent, found.method) == (True, "TOST")


def test_percent_margin_is_tested_as_a_ratio():
    found = equivalence(REFERENCE, OTHER, Margin(value=4.0, unit="percent"))
    upper, lower = 1.04 * REFERENCE - OTHER, OTHER - 0.96 * REFERENCE
    assert found.p == pytest.approx(max(one_sided_t(upper), one_sided_t(lower)), rel=1e-9)


def test_claims_equivalence_at_the_margin_at_most_five_percent_of_the_time():
    draws, margin, claims = generator("size"), Margin(value=0.5), 0
    for _ in range(1000):
        reference = draws.normal(1.0, 1.0, 12)
        claims += bool(equivalence(reference, reference + draws.normal(0.5, 0.3, 12), margin).equivalent)
    assert claims / 1000 <= 0.071  # 5 % + 3 standard errors


def test_a_large_gap_is_never_equivalent():
    assert equivalence(REFERENCE, REFERENCE * 2, Margin(value=10.0, unit="percent")).equivalent is False


def test_degenerate_inputs_have_words_and_no_nan():
    margin = Margin(value=0.1)
    assert equivalence(REFERENCE, OTHER, None).method == "no margin: no equivalence is claimed"
    for n in (0, 1):
        found = equivalence(REFERENCE[:n], OTHER[:n], margin)
        assert (found.p, found.equivalent, found.method) == (None, None, f"no test: {n} of at least 2 blocks")
    same = equivalence(REFERENCE, REFERENCE, margin)
    assert (same.p, same.equivalent, same.method) == (0.0, True, "no spread: decided without a test")
    shifted = equivalence(np.zeros(4), np.full(4, 0.5), margin)
    assert (shifted.p, shifted.equivalent) == (1.0, False)
    at_the_margin = equivalence(np.zeros(4), np.full(4, 0.1), margin)
    assert at_the_margin.equivalent is False
    negative = equivalence(-REFERENCE, OTHER, Margin(value=1.0, unit="percent"))
    assert (negative.p, negative.method) == (None, "no test: a margin in percent needs a reference above zero")
    assert equivalence(REFERENCE[:2], OTHER[:2], margin).p is not None
