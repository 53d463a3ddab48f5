import pytest
from references import step_down_holm
from synthetic import generator

from analysis.holm import holm


def test_hand_worked():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx((0.03, 0.06, 0.06))
    assert holm([0.02]) == pytest.approx((0.02,))
    assert holm([]) == ()


def test_equals_the_procedure_step_by_step():
    for size in (2, 5, 12):
        p_values = list(generator("holm", size).random(size))
        assert holm(p_values) == pytest.approx(step_down_holm(p_values))


def test_a_contrast_without_a_p_stays_in_the_family():
    assert holm([0.01, None, 0.5]) == pytest.approx((0.03, None, 1.0))
