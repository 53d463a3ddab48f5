from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from ablate.design.attainable import LEVEL, blocks_needed, holm, smallest_p


@pytest.mark.parametrize("pairs", range(1, 9))
def test_smallest_p_is_that_of_the_exact_test_on_gaps_of_one_sign(pairs):
    gaps = np.arange(1.0, pairs + 1)
    signs = np.array(list(product([-1, 1], repeat=pairs)))
    extreme = np.abs(signs @ gaps) >= abs(gaps.sum())
    assert smallest_p(pairs) == extreme.mean()


def test_without_pairs_nothing_can_be_shown():
    assert smallest_p(0) == 1.0


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(1e-9, 1.0), min_size=1, max_size=8))
def test_holm_agrees_with_statsmodels(p_values):
    np.testing.assert_allclose(holm(p_values), multipletests(p_values, method="holm")[1], rtol=1e-12)


def test_holm_of_no_tests():
    assert holm([]) == []


@pytest.mark.parametrize(("family", "blocks"), [(1, 6), (2, 7), (3, 7), (4, 8), (10, 9)])
def test_blocks_needed(family, blocks):
    assert blocks_needed(family) == blocks
    assert family * smallest_p(blocks) < LEVEL <= family * smallest_p(blocks - 1)
