import itertools

import numpy as np
import pytest
from references import brute_force_sign_flip
from synthetic import generator

from ablate.design.attainable import smallest_p
from analysis.sign_flip import EXACT_UP_TO, RESAMPLES, sign_flip


@pytest.mark.parametrize("n", [2, 3, 5, 6, 8, 10])
@pytest.mark.parametrize("shift", [0.0, 0.5, 3.0])
def test_equals_every_sign_pattern_by_hand(n, shift):
    differences = generator("flip", n, shift).normal(shift, 1.0, n)
    assert sign_flip(differences).p == pytest.approx(brute_force_sign_flip(list(differences)), abs=1e-12)


def test_ties_and_zeros_equal_every_sign_pattern_by_hand():
    for differences in ([1.0, 1.0, 1.0, -1.0], [0.0, 0.0, 2.0, 3.0], [0.1, 0.2, 0.3, 0.6, -0.6], [1.0, -1.0]):
        assert sign_flip(np.array(differences)).p == pytest.approx(brute_force_sign_flip(differences), abs=1e-12)


def test_five_blocks_cannot_reach_five_percent_and_six_can():
    assert sign_flip(np.arange(1.0, 6.0)).p == 0.0625 == smallest_p(5)
    assert sign_flip(np.arange(1.0, 7.0)).p == 0.03125 == smallest_p(6)


def test_rejects_at_most_five_percent_of_all_sign_patterns_under_the_null():
    magnitudes = generator("null").exponential(1.0, 8)
    p_values = [sign_flip(magnitudes * np.array(signs)).p for signs in itertools.product((1.0, -1.0), repeat=8)]
    for level in (0.01, 0.05, 0.2):
        assert sum(p <= level for p in p_values) <= level * 2**8


def test_degenerate_inputs_have_words_and_no_nan():
    nothing = sign_flip(np.array([]))
    assert (nothing.p, nothing.method) == (None, "no test: no blocks")
    zeros = sign_flip(np.zeros(6))
    assert (zeros.p, zeros.smallest, zeros.method) == (1.0, 1.0, "no test needed: all differences are zero")
    one = sign_flip(np.array([0.3]))
    assert (one.p, one.method) == (1.0, "exact, 2 sign patterns")
    two = sign_flip(np.array([0.3, 0.3]))
    assert (two.p, two.smallest) == (0.5, 0.5)


def test_zero_differences_carry_no_sign():
    assert sign_flip(np.array([0.0, 0.0, 1.0, 1.0, 1.0, 1.0])).smallest == smallest_p(4)


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_scale_changes_nothing(scale):
    assert sign_flip(np.arange(1.0, 7.0) * scale).p == 0.03125


def test_many_blocks_are_sampled_by_seed_and_say_so():
    differences = generator("many").normal(0.35, 1.0, EXACT_UP_TO + 4)
    before = np.random.get_state()[1].tobytes()
    first, again, other = sign_flip(differences, 1), sign_flip(differences, 1), sign_flip(differences, 2)
    assert np.random.get_state()[1].tobytes() == before
    assert first == again
    assert first.p != other.p
    assert first.method == f"Monte Carlo, {RESAMPLES} sign patterns, seed 1"
    # 5 standard errors of a Monte Carlo p around its exact value
    exact = brute_force_by_convolution(differences)
    assert abs(first.p - exact) < 5 * np.sqrt(exact * (1 - exact) / RESAMPLES) * 2


def brute_force_by_convolution(differences):
    """Exact p of many blocks: meet in the middle over two halves of the sign patterns."""
    half = len(differences) // 2

    def sums(part):
        return np.array([np.dot(signs, part) for signs in itertools.product((1.0, -1.0), repeat=len(part))])

    first, second = np.sort(sums(differences[:half])), sums(differences[half:])
    seen = abs(differences.sum()) * (1 - 1e-12)
    above = len(first) - np.searchsorted(first, seen - second, side="left")
    return 2 * above.sum() / 2 ** len(differences)
