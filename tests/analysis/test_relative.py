import numpy as np
import pytest

from analysis.relative import relative_gap


def test_hand_worked():
    assert relative_gap(np.array([1.0, 3.0]), np.array([2.0, 8.0])) == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("reference", "other"),
    [([], []), ([1.0, 0.0], [1.0, 1.0]), ([-1.0], [1.0]), ([1e-200], [1.0]), ([1.0, 5e-324], [0.0, 0.0])],
)
def test_no_percentage_of_nothing_of_a_negative_or_of_next_to_nothing(reference, other):
    assert relative_gap(np.array(reference), np.array(other)) is None
