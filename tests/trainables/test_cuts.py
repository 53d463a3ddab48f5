import numpy as np
import pytest

from trainables import clips
from trainables.cuts import cuts, difference


def test_the_cuts_of_the_clips_are_found_and_no_other(cache):
    what = clips.film(24, 16)
    pairs = zip(what.frames, what.frames[1:], strict=False)
    found = cuts([difference(one, other) for one, other in pairs])
    assert found == [shot.start for shot in what.shots[1:]]


@pytest.mark.parametrize(
    ("differences", "expected"),
    [
        ([], []),
        ([100], [1]),
        ([29.9], []),
        ([5, 60, 5], [2]),
        ([50, 60, 50], []),  # a fast pan
        ([60, 5, 5, 60], [1, 4]),
        ([40, 60, 40], [2]),
        ([60, 60], []),
    ],
)
def test_a_cut_is_large_and_stands_out(differences, expected):
    assert cuts(differences) == expected


def test_the_difference_is_the_mean_absolute_one_and_doesnt_wrap():
    one, other = np.zeros((2, 2, 3), np.uint8), np.full((2, 2, 3), 200, np.uint8)
    assert difference(one, other) == difference(other, one) == 200
