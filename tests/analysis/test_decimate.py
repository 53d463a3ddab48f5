import numpy as np
import pytest
from synthetic import generator

from analysis.decimate import decimate


def curve(n):
    middle = generator("decimate", n).standard_normal(n)
    return np.arange(n), middle, middle - 1, middle + 1


def test_a_short_curve_stays_as_it_is():
    given = curve(600)
    assert all(a is b for a, b in zip(given, decimate(*given, points=600), strict=True))


@pytest.mark.parametrize("n", [601, 1234, 100_000])
def test_a_long_curve_is_thinned_and_keeps_its_extremes(n):
    batch, middle, low, high = curve(n)
    middle[n // 3] = 50.0  # a spike of one batch
    middle[n // 2] = -50.0
    thin = decimate(batch, middle, low, high, points=600)
    assert {len(one) for one in thin} == {len(thin[0])}
    assert len(thin[0]) <= 600
    assert np.all(np.diff(thin[0]) > 0)
    assert np.array_equal(thin[1], middle[thin[0]])
    assert (thin[1].max(), thin[1].min()) == (50.0, -50.0)
    assert (thin[2].min(), thin[3].max()) == (low.min(), high.max())


def test_every_point_of_the_band_is_inside_the_thinned_band():
    batch, middle, low, high = curve(5000)
    thin = decimate(batch, middle, low, high, points=100)
    for part, (a, b) in zip(np.array_split(batch, 50), zip(thin[2][::2], thin[3][::2], strict=True), strict=True):
        assert low[part].min() == a
        assert high[part].max() == b


def test_a_bin_needs_two_points():
    with pytest.raises(ValueError, match="points is 1; a bin needs two"):
        decimate(*curve(10), points=1)
