"""How much of an eigenvector a start can have that a Krylov space shows nothing of, and how likely that is."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import beta, binom

from ablate.curvature import edges
from ablate.curvature.edges import UNSEEN, grow
from ablate.curvature.lanczos import Krylov
from ablate.curvature.unseen import chance, largest_mass

SPECTRUM = np.concatenate([np.linspace(-0.02, 0.06, 397), [-0.0294, -0.0271, 6.2]])


def space(values: np.ndarray, start: np.ndarray, steps: int) -> Krylov:
    at = torch.from_numpy(values)
    krylov = Krylov(lambda v: at * v, torch.from_numpy(start))
    for _ in range(steps):
        krylov.extend()
    return krylov


@pytest.mark.parametrize("steps", [1, 5, 10])
def test_no_eigenvector_has_more_of_the_start(steps: int) -> None:
    """At every eigenvalue, also inside. The largest is found within five products, and there digits are lost."""
    start = np.random.default_rng(0).standard_normal(len(SPECTRUM))
    krylov = space(SPECTRUM, start, steps)
    shares = start**2 / (start**2).sum()
    for place, share in zip(SPECTRUM[:-1], shares[:-1], strict=True):
        assert share <= largest_mass(krylov._alpha, krylov._beta, float(place)) * (1 + 1e-9)


def test_of_an_invariant_space_it_is_the_share_itself() -> None:
    values, start = np.array([-2.0, 0.5, 1.0, 4.0]), np.array([1.0, 2.0, 3.0, 0.5])
    krylov = space(values, start, 4)
    assert krylov.exhausted
    for place, share in zip(values, start**2 / (start**2).sum(), strict=True):
        assert largest_mass(krylov._alpha, krylov._beta, float(place)) == pytest.approx(share, rel=1e-9)


def test_it_is_attained_by_a_measure_with_the_same_moments() -> None:
    """A start of two eigenvectors, seen by one product: the mass at a place is then all that its mean and spread allow.

    Of a mean 0 and a variance 1 no more than 1 / (1 + x^2) lies at x (Cantelli 1928).
    """
    krylov = space(np.array([-1.0, 1.0]), np.ones(2), 1)
    assert largest_mass(krylov._alpha, krylov._beta, 3.0) == pytest.approx(1 / 10)


def test_far_outside_it_is_nothing() -> None:
    krylov = space(SPECTRUM, np.ones(len(SPECTRUM)), 60)
    assert largest_mass(krylov._alpha, krylov._beta, 1e9) == 0


@pytest.mark.parametrize("n", [2, 10, 10_000])
def test_the_chance_is_never_below_that_of_a_direction(n: int) -> None:
    """The square of a component of a unit vector that points anywhere is beta distributed."""
    for mass in (1e-12, 1e-4 / n, 1e-2 / n, 1 / n):
        exact = beta.cdf(mass, 0.5, (n - 1) / 2)
        assert exact <= chance(mass, n) * (1 + 1e-9)
    small = 1e-6 / n
    if n > 2:  # sqrt(n / 2) over the ratio of gamma functions of n / 2 and (n - 1) / 2: 1 + 3 / 4n and terms of 1 / n^2
        assert chance(small, n) <= beta.cdf(small, 0.5, (n - 1) / 2) * (1 + 1 / n)
    assert chance(10.0, n) == 1


@pytest.mark.parametrize("known", [0.0, 1e-3, 0.05, 0.4])
def test_what_is_added_to_a_random_direction_hides_nothing(known: float) -> None:
    """A component of known vectors beside the random one: within s of 0 no more often than the random one alone."""
    n, share = 100, 0.8

    def below(x: float) -> float:
        return 0.5 + 0.5 * float(np.sign(x)) * float(beta.cdf(min(x * x / share, 1.0), 0.5, (n - 1) / 2))

    for mass in (1e-8, 1e-6, 1e-4):
        s = mass**0.5
        assert below(s - known) - below(-s - known) <= chance(mass / share, n) * (1 + 1e-9)
    krylov = space(SPECTRUM, np.ones(len(SPECTRUM)), 6)
    assert 0 < krylov.unseen(-5.0, share) == pytest.approx(krylov.unseen(-5.0) / share**0.5)


STARTS, TOLERANCE = 200, 1e-3
CLOSE = np.concatenate([[-1.0, -0.9975], np.linspace(-0.985, 1, 60), [1.25, 1.5, 2.4, 2.8]])
"""Like a convnet's at the edge of stability: the two lowest .25 % apart, and many not far behind."""


def missed(spectrum: np.ndarray, far: float | None = None) -> int:
    """Return of how many random starts the lower end, said to be found, is off by more than the tolerance."""
    values, draws, count = torch.from_numpy(spectrum), torch.Generator().manual_seed(0), 0
    for _ in range(STARTS):
        start = torch.randn(len(values), dtype=torch.float64, generator=draws)
        bottom = grow(Krylov(lambda v: values * v, start), TOLERANCE, 200, far=far).bottom[0]
        assert bottom.converged
        count += bottom.value > spectrum.min() * (1 - TOLERANCE)
    return count


@pytest.mark.parametrize("spectrum", [SPECTRUM, CLOSE], ids=["8 % apart", "a quarter of a percent apart"])
def test_an_end_is_missed_no_more_often_than_the_chance_allows(spectrum: np.ndarray) -> None:
    """The second lowest is a wrong end by more than the tolerance. Random starts."""
    assert missed(spectrum) <= binom.ppf(0.999, STARTS, UNSEEN)


def test_of_two_ends_closer_than_was_looked_for_the_wrong_one_is_found_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule before: that none is 2 % farther out is sure to 98 %, but nearly a third of the starts stop early."""
    monkeypatch.setattr(edges, "UNSEEN", 0.02)
    assert missed(CLOSE, far=0.02) > binom.ppf(0.999, STARTS, 0.2)
