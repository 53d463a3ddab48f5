"""Gauss-Radau rules of a random start: exact where they must be, with a node where it is wanted, bounds that hold."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ablate.curvature.density import quadrature
from ablate.curvature.lanczos import Array, Krylov
from ablate.curvature.quadrature import Quadrature

EPS = float(np.finfo(np.float64).eps)
N = 400
SPECTRUM = np.concatenate([np.zeros(240), np.linspace(-1, 2, 157), [4.0, 5.0, -2.0]])


def start() -> torch.Tensor:
    return torch.randn(N, dtype=torch.float64, generator=torch.Generator().manual_seed(3))


def measured(spectrum: Array, steps: int) -> tuple[Quadrature, Array]:
    """Return the quadrature of a start after some steps, and the weights of its measure on the spectrum."""
    values, v = torch.from_numpy(spectrum), start()[: len(spectrum)]
    krylov = Krylov(lambda x: values * x, v)
    while len(krylov) < steps and not krylov.exhausted:
        krylov.extend()
    ritz = krylov.ritz()
    weights = (v / v.norm()).numpy() ** 2
    return quadrature(ritz, np.zeros(len(ritz.values), dtype=bool)), weights


@pytest.mark.parametrize("place", [0.0, -0.3, 1.7, 6.0])
def test_a_rule_has_the_node_and_twice_the_steps_as_degree(place: float) -> None:
    """Golub 1973: m steps and one prescribed node are exact up to the degree 2 m; m nodes of Gauss up to 2 m - 1."""
    steps = 7
    found, true = measured(SPECTRUM, steps)
    nodes, weights = found.with_node(place)
    # the eigenproblem's backward error is a few eps of its largest entry, the far node's
    rounding = 8 * EPS * np.abs(nodes).max()
    assert len(nodes) == steps + 1
    assert np.abs(nodes - place).min() <= rounding
    assert weights.min() >= 0
    assert weights.sum() == pytest.approx(1, rel=8 * EPS)
    for degree in range(2 * steps + 2):
        size = true @ np.abs(SPECTRUM) ** degree
        moved = degree * rounding * weights @ np.abs(nodes) ** max(degree - 1, 0) + (steps + 1) * EPS * size
        wrong = abs(weights @ nodes**degree - true @ SPECTRUM**degree)
        assert bool(wrong <= 8 * moved) is (degree <= 2 * steps)
        by_gauss = abs(found.weights @ found.values**degree - true @ SPECTRUM**degree)
        assert bool(by_gauss <= 8 * moved) is (degree < 2 * steps)


@pytest.mark.parametrize("threshold", [-3.0, -1.5, -0.2, -1e-3, 0.0, 0.5, 3.0, 4.5, 6.0])
@pytest.mark.parametrize("steps", [5, 12, 20])
def test_the_bounds_hold_and_are_no_wider_than_those_of_the_nodes(threshold: float, steps: int) -> None:
    found, true = measured(SPECTRUM, steps)
    low, high = found.below(threshold)
    share = true[threshold > SPECTRUM].sum()
    slack = 100 * EPS  # sums of weights, none larger than 1
    assert low - slack <= share <= high + slack
    below = int((found.values < threshold).sum())
    assert found.weights[: max(below - 1, 0)].sum() <= low + slack
    assert high <= found.weights[: below + 1].sum() + slack


def test_more_steps_bring_the_bounds_together() -> None:
    """Two clusters that a threshold parts: what can lie between them falls by 3 with each step, in the limit.

    By x^2 both become [1/4, 1], centre 5/8 and half width 3/8, from where 0 is at u = -5/3; polynomials grow there by
    |u| + sqrt(u^2 - 1) = 3 a degree, their squares by 9, and a step is half a degree in x^2. The start's weights, which
    are random, move the ratios by a few percent: 81 and 6765 were found.
    """
    spectrum = np.concatenate([np.linspace(-1, -0.5, 200), np.linspace(0.5, 1, 200)])
    widths = [float(np.diff(measured(spectrum, steps)[0].below(0.0))[0]) for steps in (4, 8, 16)]
    assert widths[0] / widths[1] == pytest.approx(3**4, rel=0.1)
    assert widths[1] / widths[2] == pytest.approx(3**8, rel=0.1)


def test_the_mass_around_0_does_not_change_with_every_step() -> None:
    rules = [measured(SPECTRUM, steps)[0].rule() for steps in range(8, 16)]
    middle = [weights[np.abs(nodes).argmin()] for nodes, weights in rules]
    # the largest mass that a measure with so many moments can have at 0, so more of them leave less
    assert (np.diff(middle) <= 100 * EPS).all()
    assert middle[-1] >= measured(SPECTRUM, 1)[1][SPECTRUM == 0].sum() - 100 * EPS
    gauss = [measured(SPECTRUM, steps)[0] for steps in range(8, 16)]
    plain = [g.weights[np.abs(g.values).argmin()] for g in gauss]
    assert np.abs(np.diff(middle)).max() < np.abs(np.diff(plain)).max() / 3
    assert all(
        nodes[0] >= g.values[0] and nodes[-1] <= g.values[-1] for (nodes, _), g in zip(rules, gauss, strict=True)
    )


def test_a_spectrum_on_one_side_of_0_and_one_that_is_known_get_no_node_there() -> None:
    found, _ = measured(np.linspace(1, 2, N), 6)
    assert (found.rule()[0] == found.values).all()
    few = np.repeat([-1.0, 0.5, 2.0], N // 3)
    known, true = measured(few, 9)
    assert len(known.values) == 3
    assert known.rule()[0] == pytest.approx([-1.0, 0.5, 2.0], abs=8 * EPS)
    assert known.below(0.0) == pytest.approx((true[few < 0].sum(),) * 2, abs=100 * EPS)


def test_where_gauss_has_the_node_it_is_taken() -> None:
    """A further node far away would cost the others their digits."""
    even = Quadrature(np.array([-1.0, 0.0, 1.0]), np.array([0.6, 0.5, 0.6]), np.array([0.1, 0.1, 0.1]), (-1.0, 1.0))
    assert (even.with_node(0.0)[0] == even.values).all()
    near = Quadrature(np.array([-1.0, 1e-12, 1.0]), even.first, even.last, even.ends)
    assert (near.with_node(0.0)[0] == near.values).all()
    low, high = near.below(0.0)
    assert (low, high) == pytest.approx((near.weights[0], near.weights[:2].sum()))
