"""Edges, density, trace and index of small networks against the whole float64 Hessian."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chi2, f, wasserstein_distance
from torch import nn

from ablate.curvature import Curvature, probe
from ablate.curvature.density import quadrature, settled
from ablate.curvature.edges import MORE
from ablate.curvature.lanczos import Array, Ritz
from ablate.curvature.probe import NOISE
from tests.curvature.networks import Case, autoencoder, conv_lstm, convnet, hessian


@dataclass
class Known:
    name: str
    case: Case
    true: Array
    vectors: Array
    found: list[Curvature]


@pytest.fixture(scope="module", params=[autoencoder, convnet, conv_lstm], ids=lambda f: f.__name__)
def known(request: pytest.FixtureRequest) -> Known:
    make: Callable[[], Case] = request.param
    case = make()
    true, vectors = np.linalg.eigh(hessian(case))
    return Known(make.__name__, case, true, vectors, [probe(*case, seed=seed, exact_below=0) for seed in range(5)])


def test_both_edges_are_right_to_the_tolerance_and_within_their_bounds(known: Known) -> None:
    for found in known.found:
        for edge, true in ((found.top, known.true[-1]), (found.bottom, known.true[0])):
            assert edge.converged
            assert abs(edge.value - true) <= edge.bound
            assert abs(edge.value - true) <= 1e-3 * abs(true)  # the tolerance asked for
            assert edge.sign == np.sign(true)
        assert found.products <= 60


def test_the_index_is_bounded_from_below_and_estimated_within_its_errors(known: Known) -> None:
    for found in known.found:
        true = (known.true < -found.index.floor).sum()
        assert 0 < found.index.at_least <= true
        share = found.index.share
        assert share is not None
        exact = true / found.dimension
        slack = 4 * share.standard_error + 4 / found.dimension
        assert share.low - slack <= exact <= share.high + slack


def test_the_density_brackets_the_true_share_below_every_threshold(known: Known) -> None:
    """All over the spectrum, with four standard errors of the random start and the weight of four eigenvalues.

    A normal number is farther off than four standard errors once in 16,000 times, and these are 375 thresholds. Near
    the ends of the spectrum, where a share is no normal number, the weight of the few eigenvalues there takes over.
    """
    for found in known.found:
        assert found.density is not None
        for threshold in np.quantile(known.true, np.linspace(0.02, 0.98, 25)):
            share = found.density.share_below(float(threshold))
            exact = (known.true < threshold).mean()
            slack = 4 * share.standard_error + 4 / found.dimension
            assert share.low - slack <= exact <= share.high + slack


def test_atoms_and_a_node_at_0_are_no_worse_than_the_plain_quadrature(known: Known) -> None:
    """Wasserstein-1 distance to the true spectrum, over five starts, at the same products."""
    errors = []
    for found in known.found:
        density, ritz = found.density, found.edges.ritz
        assert density is not None
        ours = wasserstein_distance(density.nodes, known.true, density.weights)
        errors.append((ours, wasserstein_distance(ritz.values, known.true, ritz.first**2)))
    ours, plain = np.mean(errors, axis=0)
    assert ours <= plain


FARTHEST = {"autoencoder": 0.2, "convnet": 0.1, "conv_lstm": 0.04}
"""Largest Wasserstein-1 distance of a density from 24 starts, over the mean of |eigenvalue|. Stated, not derived: what
is certain about a quadrature, the brackets above, allows several times as much, so that only these notice one that got
worse; a density without its outliers is farther away, which is asserted."""


def test_the_density_is_within_a_stated_distance_of_the_true_spectrum(known: Known) -> None:
    model, loss, batches = known.case
    found = probe(model, loss, batches, exact_below=0, probes=24).density
    assert found is not None
    limit = FARTHEST[known.name] * float(np.abs(known.true).mean())
    assert wasserstein_distance(found.nodes, known.true, found.weights) < limit
    # what such a distance tells from: the outliers' weight lost
    kept = np.abs(found.nodes) < 0.1 * known.true[-1]
    assert wasserstein_distance(found.nodes[kept], known.true, found.weights[kept]) > limit


STARTS = 40


def outside(known: Known, atoms: Array) -> Array:
    """Return the Hessian without the eigenpairs that a density knows as atoms."""
    kept = np.ones(len(known.true), dtype=bool)
    for atom in atoms:
        kept[np.abs(known.true - atom).argmin()] = False
    return (known.vectors[:, kept] * known.true[kept]) @ known.vectors[:, kept].T


def signs_over_spheres(known: Known, atoms: Array) -> float:
    """Return the variance of a density's trace over what its standard error says on average.

    For a start s of independent numbers with the excess kurtosis k, divided by its length, s' R s / s' s times n has a
    variance of 2 |R|^2 + k sum of R_ii^2 - (2 + k) (tr R)^2 / n to the first order in 1/n; k is -2 for signs. What is
    said is that of a start that points anywhere, 2 |R|^2 - 2 (tr R)^2 / n.
    """
    rest = outside(known, atoms)
    n, c, diagonal = len(rest), NOISE**2, np.diag(rest)
    excess = (1 + 6 * c + 3 * c**2) / (1 + c) ** 2 - 3  # of a sign and a normal number of variance c
    anywhere = 2 * ((rest**2).sum() - diagonal.sum() ** 2 / n)
    return float((anywhere + excess * ((diagonal**2).sum() - diagonal.sum() ** 2 / n)) / anywhere)


@pytest.mark.parametrize("signs", [0, 12])
def test_the_trace_has_no_bias_and_its_errors_are_of_the_size_they_are_said_to_be(known: Known, signs: int) -> None:
    """Forty starts, a number fixed beforehand. A bias of 20 % of the sum of |eigenvalue|, planted, is rejected."""
    model, loss, batches = known.case
    true, planted = known.true.sum(), 0.2 * np.abs(known.true).sum()
    asked = {"probes": 0, "trace_products": 2 * signs} if signs else {}
    found = [probe(model, loss, batches, seed=s, exact_below=0, **asked) for s in range(STARTS)]
    values = np.array([c.trace.value for c in found if c.trace])
    errors = np.array([c.trace.standard_error for c in found if c.trace])
    assert len(values) == STARTS
    spread = values.std(ddof=1) / STARTS**0.5
    assert abs(values.mean() - true) <= 3.5 * spread
    assert abs(values.mean() + planted - true) > 3.5 * spread
    assert abs(values.mean() - planted - true) > 3.5 * spread
    # the squares' mean over what is said of it: normal deviations leave this range once in 1000
    size = float(np.mean((values - true) ** 2) / np.mean(errors**2))
    if signs:  # the jackknife counts k times what k tests do only together (Efron and Stein 1981): here less than 4
        low, high = f.ppf([0.0005, 0.9995], STARTS, STARTS * (signs - 1)) * np.array([0.25, 1])
    else:  # a start is one sample, and what it is said to vary by is known from the whole matrix
        expected = np.mean([signs_over_spheres(known, c.density.atoms) for c in found if c.density])
        low, high = expected * chi2.ppf([0.0005, 0.9995], STARTS) / STARTS
    assert low < size < high


def test_the_trace_is_within_three_standard_errors_on_average(known: Known) -> None:
    true = known.true.sum()
    deviations = [(f.trace.value - true) / f.trace.standard_error for f in known.found if f.trace]
    assert len(deviations) == 5
    # the mean square of five standard normal numbers exceeds 4.2 once in 1000 (chi-squared, 5 degrees)
    assert np.mean(np.square(deviations)) < 4.2
    model, loss, batches = known.case
    by_itself = probe(model, loss, batches, trace_products=80, exact_below=0).trace
    assert by_itself is not None
    assert by_itself.products == 80
    assert abs(by_itself.value - true) <= 3.5 * by_itself.standard_error


def test_more_pairs_at_each_end(known: Known) -> None:
    model, loss, batches = known.case
    found = probe(model, loss, batches, top=3, bottom=2, exact_below=0, most_steps=150)
    for edge, true in zip(found.edges.top, known.true[::-1], strict=False):
        assert abs(edge.value - true) <= edge.bound
    for edge, true in zip(found.edges.bottom, known.true, strict=False):
        assert abs(edge.value - true) <= edge.bound
    assert (len(found.edges.top), len(found.edges.bottom)) == (3, 2)


def test_all_eigenvalues_of_a_small_model_are_exact(known: Known) -> None:
    model, loss, batches = known.case
    found = probe(model, loss, batches, exact_below=10_000)
    assert found.density is not None
    assert np.abs(found.density.nodes - known.true).max() <= found.top.bound + 1e-12 * np.abs(known.true).max()
    assert found.index.method == "dense"
    assert found.index.share is not None
    assert found.index.at_least == (known.true < -found.index.floor).sum()


def test_a_probe_set_in_unequal_pieces_is_weighted_by_samples(known: Known) -> None:
    model, loss, (batch,) = known.case
    whole = known.found[0]

    def cut(at: slice) -> Any:
        return tuple(b[at] for b in batch) if isinstance(batch, tuple) else batch[at]

    n = len(batch[0]) if isinstance(batch, tuple) else len(batch)
    pieces = [cut(slice(0, 1)), cut(slice(1, n))]
    found = probe(model, loss, pieces, exact_below=0)
    assert found.loss == pytest.approx(whole.loss, rel=1e-12)
    assert found.top.value == pytest.approx(whole.top.value, rel=1e-9)
    assert found.bottom.value == pytest.approx(whole.bottom.value, rel=1e-3)


def test_in_float32_the_bounds_are_larger_and_hold(known: Known) -> None:
    model, loss, batches = known.case
    found = probe(model, loss, batches, dtype=torch.float32, exact_below=0)
    assert found.dtype == "float32"
    assert found.edges.rounding > known.found[0].edges.rounding
    assert abs(found.top.value - known.true[-1]) <= found.top.bound
    assert abs(found.bottom.value - known.true[0]) <= found.bottom.bound


def test_a_warm_start_needs_fewer_products(known: Known) -> None:
    """A step of training later the vectors of before are nearly right."""
    model, loss, batches = known.case
    before = known.found[0]
    for p in model.parameters():
        p.grad = None
    loss(model, batches[0]).backward()
    with torch.no_grad():
        for p in model.parameters():
            p -= 1e-3 * p.grad
    cold = probe(model, loss, batches, probes=0, exact_below=0)
    warm = probe(model, loss, batches, probes=0, warm=before, exact_below=0)
    assert warm.products <= cold.products
    # beside the space: the gradient's own product, and one for the check, which a random start's first serves as well
    steps = len(cold.edges.ritz.values), len(warm.edges.ritz.values)
    assert (cold.products, warm.products) == (steps[0] + 1, steps[1] + 2)
    assert warm.top.value == pytest.approx(cold.top.value, rel=2e-3)
    assert warm.bottom.value == pytest.approx(cold.bottom.value, rel=2e-3)
    with pytest.raises(ValueError, match="probes=0"):
        probe(model, loss, batches, warm=before)


def left_open(ritz: Ritz, dimension: int) -> float:
    """Return the integral of the standard error that a random start leaves in the share below."""
    nodes, weights = whole(ritz)
    p = np.clip(np.cumsum(weights)[:-1], 0, 1)
    return float(np.sqrt(2 * p * (1 - p) / dimension) @ np.diff(nodes))


def whole(ritz: Ritz) -> tuple[Array, Array]:
    return quadrature(ritz, np.zeros(len(ritz.values), dtype=bool)).rule()


def test_the_space_grows_until_a_quadrature_is_as_sure_as_its_start_is(known: Known) -> None:
    """Sixty products would move a quadrature by less than its start leaves open, on average over five."""
    model, loss, batches = known.case
    changed, leave = [], []
    for found in known.found:
        longer = probe(
            model, loss, batches, seed=found.seed, exact_below=0, top=30, bottom=29, most_steps=60
        ).edges.ritz
        assert len(longer.values) == 60
        changed.append(_moved(found.edges.ritz, longer))
        leave.append(left_open(found.edges.ritz, found.dimension))
    assert np.mean(changed) <= np.mean(leave)


def _moved(ritz: Ritz, longer: Ritz) -> float:
    (one, weights), (other, others) = whole(ritz), whole(longer)
    return float(wasserstein_distance(one, other, weights, others))


def test_a_quadrature_has_settled_when_it_moved_less_than_its_start_leaves_open(known: Known) -> None:
    ritz, n = known.found[0].edges.ritz, known.found[0].dimension
    leave = left_open(ritz, n)
    for far in (0.5, 0.9, 1.1, 3.0):
        before = Ritz(ritz.values + far * leave, ritz.residuals, ritz.first, ritz.inner)
        moved = wasserstein_distance(*(whole(r)[0] for r in (ritz, before)), *(whole(r)[1] for r in (ritz, before)))
        assert settled(ritz, before, n, 1) is bool(moved <= leave)
    assert settled(ritz, ritz, n, 1)
    assert not settled(ritz, Ritz(ritz.values + ritz.values[-1], ritz.residuals, ritz.first, ritz.inner), n, 10_000)


def test_a_density_gets_a_quarter_as_many_steps_again_at_most() -> None:
    """Ends far off and a wide middle, in many dimensions: what a start leaves open is less than few nodes resolve."""
    n = 20_000
    spectrum = torch.cat([torch.linspace(-1, 1, n - 2), torch.tensor([-3.0, 3.0])]).double()
    model = nn.ParameterList([nn.Parameter(torch.zeros(n, dtype=torch.float64))])
    case = (model, lambda m, _: (spectrum * m[0] ** 2).sum() / 2, [torch.zeros(1)])
    ends, both = (probe(*case, exact_below=0, probes=probes) for probes in (0, 1))
    steps = len(ends.edges.ritz.values), len(both.edges.ritz.values)
    assert not settled(both.edges.ritz, ends.edges.ritz, n, 1)
    assert steps[1] == int(np.ceil(MORE * steps[0]))
