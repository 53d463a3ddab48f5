"""The trace of a Krylov space and of its complement: no bias over all signs, and errors of the size that they are."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy.stats import f
from torch import Tensor, nn

from ablate.curvature import CurvatureError, Plan, probe
from ablate.curvature.lanczos import Krylov
from ablate.curvature.trace import deflated, estimates, small

EPS = float(np.finfo(np.float64).eps)


def symmetric(n: int, seed: int = 0) -> Tensor:
    drawn = torch.randn(n, n, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return (drawn + drawn.T) / 2


def space(matrix: Tensor, steps: int, seed: int = 1) -> Krylov:
    draws = torch.Generator().manual_seed(seed)
    krylov = Krylov(matrix.__matmul__, torch.randn(len(matrix), dtype=torch.float64, generator=draws))
    for _ in range(steps):
        krylov.extend()
    return krylov


def slow(n: int, power: float = 0.6) -> Tensor:
    """Return a matrix with eigenvalues of both signs and a tail that falls off as a power."""
    basis = torch.linalg.qr(symmetric(n, 5))[0]
    values = torch.arange(1, n + 1, dtype=torch.float64) ** -power
    values[1::2] *= -0.5
    return (basis * values) @ basis.T


def test_over_all_signs_of_a_test_its_estimate_is_the_trace_and_varies_as_hutchinson_says() -> None:
    """The others, which its directions come from, are held: without them it is Hutchinson's of what they leave."""
    n, steps = 10, 3
    matrix, krylov = symmetric(n), space(symmetric(n), steps)
    others = torch.randn(n, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    every = [torch.tensor(s, dtype=torch.float64) for s in itertools.product((-1, 1), repeat=n)]
    values = np.array([estimates(*small(krylov, torch.cat([s[:, None], others], dim=1)))[0] for s in every])
    rounding = 2**n * n * EPS * float(matrix.norm())
    assert sum(krylov.diagonal) + values.mean() == pytest.approx(float(matrix.trace()), abs=rounding)
    beyond = torch.eye(n, dtype=torch.float64) - krylov.basis.T @ krylov.basis
    directions = torch.linalg.qr(beyond @ matrix @ beyond @ others)[0]
    left = beyond - directions @ directions.T
    rest = (left @ matrix @ left).numpy()
    assert values.var() == pytest.approx(2 * ((rest**2).sum() - (np.diag(rest) ** 2).sum()), rel=rounding)


def rounding(matrix: Tensor, krylov: Krylov, tests: Tensor) -> float:
    """Return how far rounding moves an estimate: four products in a row, and the inverse of what the tests span."""
    sizes = float(torch.linalg.eigvalsh(matrix).abs().sum())
    return 4 * len(matrix) * EPS * sizes * float(np.linalg.cond(small(krylov, tests)[2]))


def test_each_estimate_is_that_of_the_plain_algorithm() -> None:
    """Epperly, Tropp and Webber 2024, equation (2.2): a basis of its own for every test."""
    n = 40
    matrix, krylov = slow(n), space(slow(n), 6)
    tests = torch.sign(torch.randn(n, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(4)))
    beyond = torch.eye(n, dtype=torch.float64) - krylov.basis.T @ krylov.basis
    a = beyond @ matrix @ beyond
    plain = []
    for i in range(5):
        q = torch.linalg.qr(a @ tests[:, [j for j in range(5) if j != i]])[0]
        w = tests[:, i] - q @ (q.T @ tests[:, i])
        plain.append(float(torch.trace(q.T @ a @ q) + w @ a @ w))
    assert estimates(*small(krylov, tests)) == pytest.approx(plain, abs=rounding(matrix, krylov, tests))


def test_the_error_is_not_too_small_and_a_bias_is_seen() -> None:
    """A hundred starts. A bias of 5 % of the trace, planted, is rejected.

    Of the variance, the jackknife's square counts what k tests do only together k times (Efron and Stein 1981): never
    too small on average, and four times too large where four of them do all together, which is not so here.
    """
    n, starts, products = 120, 100, 24
    matrix = slow(n)
    true = float(matrix.trace())
    found = [
        deflated(space(matrix, 8, seed), products, torch.Generator().manual_seed(1000 + seed)) for seed in range(starts)
    ]
    assert {trace.products for trace in found} == {products}
    apart = np.array([trace.value - true for trace in found])
    errors = np.array([trace.standard_error for trace in found])
    mean_error = apart.std(ddof=1) / starts**0.5
    assert abs(apart.mean()) <= 3.3 * mean_error
    for planted in (0.05 * true, -0.05 * true):
        assert abs(apart.mean() + planted) > 3.3 * mean_error
    low, high = f.ppf([0.0005, 0.9995], starts, starts * (products // 2 - 1))
    assert low / 4 < np.mean(apart**2) / np.mean(errors**2) < high


def test_the_error_is_that_of_leaving_each_test_out() -> None:
    n, m = 30, 5
    matrix, krylov = slow(n), space(slow(n), 6)
    tests = torch.sign(torch.randn(n, m, dtype=torch.float64, generator=torch.Generator().manual_seed(4)))
    fewer = [estimates(*small(krylov, tests[:, [j for j in range(m) if j != i]])).mean() for i in range(m)]
    found = deflated(space(matrix, 6), 2 * m, torch.Generator().manual_seed(4))
    moved = (m - 1) ** 0.5 * rounding(matrix, krylov, tests)
    assert found.standard_error == pytest.approx((m - 1) ** 0.5 * np.std(fewer), abs=moved)


def test_a_space_lowers_the_error_at_no_further_product() -> None:
    n, seeds = 200, 30
    matrix = slow(n, 1.5)
    squares = []
    for steps in (1, 30):
        krylov = space(matrix, steps)
        found = [deflated(krylov, 30, torch.Generator().manual_seed(seed)).value for seed in range(seeds)]
        squares.append(np.mean((np.array(found) - float(matrix.trace())) ** 2))
    assert squares[1] < squares[0] / f.ppf(0.999, seeds, seeds)


@pytest.mark.parametrize("steps", [2, 3, 4])
def test_what_is_left_of_few_dimensions_is_spanned_and_exact(steps: int) -> None:
    matrix = torch.diag(torch.tensor([1.0, 2.0, 4.0, 8.0], dtype=torch.float64))
    found = deflated(space(matrix, steps), 30, torch.Generator().manual_seed(0))
    assert (found.standard_error, found.products) == (0.0, 4 - steps)
    assert found.value == pytest.approx(15, rel=32 * EPS)


def test_a_matrix_of_low_rank_is_exact() -> None:
    basis = torch.linalg.qr(symmetric(50, 2))[0][:, :4]
    matrix = basis @ torch.diag(torch.tensor([3.0, 2.0, -1.0, 0.5], dtype=torch.float64)) @ basis.T
    found = deflated(space(matrix, 2), 20, torch.Generator().manual_seed(0))
    assert found.value == pytest.approx(4.5, rel=50 * 50 * EPS)
    assert found.standard_error == 0


@pytest.mark.parametrize("products", [-6, 1, 5])
def test_too_few_products_are_refused_before_anything_is_made(products: int) -> None:
    def unasked(model: nn.Module, batch: Tensor) -> Tensor:
        raise AssertionError("the loss was computed")

    with pytest.raises(CurvatureError) as refused:
        probe(nn.Linear(2, 1), unasked, [torch.ones(1, 2)], trace_products=products)
    assert str(refused.value).splitlines() == [
        f"probe: trace_products: found {products}",
        "    allowed: 0, or 6 and more",
        "    0 takes the trace from the density, at no product more.",
    ]
    assert Plan(trace_products=6).trace_products == 6


def test_five_products_are_too_few() -> None:
    with pytest.raises(ValueError, match="5 products, but a trace and its error need 6"):
        deflated(space(symmetric(10), 3), 5, torch.Generator())
