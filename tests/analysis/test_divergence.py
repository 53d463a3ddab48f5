import numpy as np
import pytest
from synthetic import generator

from analysis.divergence import Trace, part, same_bits, summarise

LOSSES = generator("divergence").random(300)


def trace(losses, start=0):
    return Trace(np.arange(start, start + len(losses)), np.asarray(losses, dtype=np.float64))


def changed(batch, value=None):
    losses = LOSSES.copy()
    losses[batch] = np.nextafter(losses[batch], 2.0) if value is None else value
    return losses


def test_bits_decide_not_values():
    nan = np.array([np.nan])
    other_nan = (nan.view(np.uint64) ^ np.uint64(1)).view(np.float64)
    assert same_bits(nan, nan).all()
    assert not same_bits(nan, other_nan).any()
    assert not same_bits(np.array([0.0]), np.array([-0.0])).any()


def test_first_differing_batch_is_one_ulp_sharp():
    assert part(0, trace(LOSSES), trace(LOSSES)).first is None
    assert part(0, trace(LOSSES), trace(changed(17))).first == 17
    assert part(0, trace(LOSSES), trace(changed(0))).first == 0


def test_batches_are_matched_by_index_not_by_position():
    found = part(0, trace(LOSSES[5:], start=5), trace(changed(20)))
    assert (found.first, found.compared, found.complete) == (20, 295, False)


def test_a_trial_that_stopped_early_is_compared_as_far_as_it_came():
    found = part(0, trace(LOSSES), trace(LOSSES[:30]))
    assert (found.first, found.compared, found.complete) == (None, 30, False)
    assert part(0, trace(LOSSES), trace([])).complete is False


def test_growth_is_relative_and_counted_from_the_first_differing_batch():
    other = LOSSES.copy()
    other[7:] *= 1 + 1e-6 * np.arange(1, 294)
    found = part(0, trace(LOSSES), trace(other))
    assert [batch for batch, _ in found.growth] == [7, 17, 107, 299]
    assert [size for _, size in found.growth] == pytest.approx([1e-6, 11e-6, 101e-6, 293e-6], rel=1e-3)


def test_growth_never_holds_nan():
    found = part(0, trace(LOSSES), trace(changed(299, np.nan)))
    assert (found.first, found.growth) == (299, ())


def test_summary_takes_earliest_and_median_over_blocks():
    pairs = [part(block, trace(LOSSES), trace(changed(batch))) for block, batch in enumerate((40, 3, 5))]
    found = summarise([*pairs, part(3, trace(LOSSES), trace(LOSSES))], planned=4)
    assert (found.earliest, found.median, found.differing, found.pairs, found.batches) == (3, 5.0, 3, 4, 1200)
    assert not found.bitwise_equal


def test_bitwise_equal_is_said_only_of_all_planned_and_complete_pairs():
    equal = part(0, trace(LOSSES), trace(LOSSES))
    assert summarise([equal, equal], planned=2).bitwise_equal
    assert not summarise([equal], planned=2).bitwise_equal
    assert not summarise([part(0, trace(LOSSES), trace(LOSSES[:30]))], planned=1).bitwise_equal
    nothing = summarise([], planned=0)
    assert (nothing.bitwise_equal, nothing.earliest, nothing.median) == (False, None, None)
