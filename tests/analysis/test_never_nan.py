"""Whatever the outcomes are, as long as they are finite: numbers or words, no NaN, no infinity, no warning."""

import dataclasses
import json

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ablate.design.spec import Margin
from analysis.outcomes import LARGEST
from analysis.pairing import Pair, Pairing
from analysis.size import effect

NUMBERS = st.one_of(
    st.floats(-LARGEST, LARGEST, allow_nan=False),
    st.sampled_from([0.0, -0.0, 1.0, 1.0 + 2**-52, 5e-324, 0.1, LARGEST]),
    st.floats(0.5, 2.0),
)
MARGINS = st.one_of(
    st.none(), st.floats(1e-9, 1e9).map(lambda v: Margin(value=v)), st.just(Margin(value=2.0, unit="percent"))
)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(pairs=st.lists(st.tuples(NUMBERS, NUMBERS), max_size=7), margin=MARGINS)
def test_every_statistic_is_finite_or_absent(pairs, margin):
    pairing = Pairing((), tuple(Pair(i, a, b, 1) for i, (a, b) in enumerate(pairs)), ())
    found = effect(pairing, margin, family=3)
    json.dumps(dataclasses.asdict(found), allow_nan=False)
    for interval in (found.gap_interval, found.relative_interval):
        assert interval.low is None or interval.low <= interval.high
    if found.gap_interval.low is not None:
        smallest, largest = float(np.min(pairing.gap)), float(np.max(pairing.gap))
        slack = 1e-12 * max(abs(smallest), abs(largest))
        assert smallest - slack <= found.gap_interval.low <= found.gap_interval.high <= largest + slack
