"""Ways to both ends of a spectrum and its density: ours, scipy's and three packages', each call of a product counted.

A package is used as its own documentation does. ``steps`` is what its best setting is told: the fewest steps that
suffice on this network, which nobody knows beforehand. ``eigsh`` gives no density: whoever wants one makes a quadrature
besides, and is told to make as many steps as ours did. PyHessian calls ``torch.eig``, which torch 2 has not: the
benchmark puts ``torch.linalg.eigh`` in its place (the matrix is symmetric), and float64 as torch's default, so that its
vectors have the model's precision.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator, eigsh

from ablate.curvature import Hessian, Plan, look, objective
from ablate.curvature.lanczos import Krylov
from benchmarks.curvature_networks import Network

TOLERANCE = 1e-3
"""Largest relative error at either end, asked of every method."""

NODES = 128
"""``ncv`` of curvlinops has no default; this is its documentation's."""


@dataclass
class Ends:
    """What a method gave: both ends, a density as nodes and weights (none: empty), and what it called.

    ``steps`` are those of its own choice in one Krylov space; 0 where it makes none.
    """

    top: float
    bottom: float
    products: int
    nodes: Any = ()
    weights: Any = ()
    gradients: int = 0
    steps: int = 0


Method = Callable[[Network, int, int], Ends]


def ours(net: Network, seed: int, steps: int) -> Ends:
    """``ablate.curvature`` as it is; ``gradients`` are those of the check by differences."""
    return _ours(net, seed, 1)


def ours_alone(net: Network, seed: int, steps: int) -> Ends:
    """The same without a density."""
    return _ours(net, seed, 0)


def _ours(net: Network, seed: int, probes: int) -> Ends:
    with counted(Hessian, "gradient_at") as gradients:
        plan = Plan(tolerance=TOLERANCE, seed=seed, probes=probes)
        found = look(Hessian(objective(net.model, net.loss, [net.batch])), plan)
    nodes, weights = (found.density.nodes, found.density.weights) if found.density else ((), ())
    steps = len(found.edges.ritz.values)
    return Ends(found.top.value, found.bottom.value, found.products, nodes, weights, gradients[0], steps)


def by_eigsh(net: Network, seed: int, steps: int, *, tolerance: float, at_once: bool, then: bool = False) -> Ends:
    """``eigsh`` of scipy on our products: what people write by hand. No density, but for a quadrature afterwards.

    Its tolerance is on residuals, so the error is about its square: at 1e-3 it stops later than an error of 1e-3 asks
    for. At 1e-2 it may be right too, but that is known only afterwards.

    Args:
        net: the network.
        seed: of the start.
        steps: of the quadrature.
        tolerance: ``tol``.
        at_once: both ends in one call (``BE``), or one after the other (``LA``, ``SA``).
        then: make a quadrature with a start of its own, plain but with our reorthogonalisation, so without ghosts.
    """
    hessian = Hessian(objective(net.model, net.loss, [net.batch]))
    n = hessian.dimension
    operator = LinearOperator((n, n), lambda v: (hessian @ torch.from_numpy(v.reshape(-1))).numpy(), dtype=np.float64)
    start = np.random.default_rng(seed).standard_normal(n)

    def values(which: str, k: int) -> Any:
        return eigsh(operator, k=k, which=which, tol=tolerance, v0=start, return_eigenvectors=False)

    low, high = values("BE", 2) if at_once else (values("SA", 1)[0], values("LA", 1)[0])
    nodes, weights = (), ()
    if then:
        krylov = Krylov(hessian.__matmul__, torch.randn(n, generator=torch.Generator().manual_seed(seed)))
        for _ in range(steps):
            krylov.extend()
        ritz = krylov.ritz()
        nodes, weights = ritz.values, ritz.first**2
    return Ends(float(high), float(low), hessian.products, nodes, weights)


def curvlinops_defaults(net: Network, seed: int, steps: int) -> Ends:
    """``lanczos_approximate_spectrum``: ends by ``eigsh`` to 1e-2, and a quadrature, smoothed on a grid."""
    from curvlinops.papyan2020traces.spectrum import lanczos_approximate_spectrum

    with counted_curvlinops() as products:
        grid, density = lanczos_approximate_spectrum(_curvlinops(net, seed), NODES)
    width = float(grid[-1] - grid[0]) / 1.1  # a margin of 0.05 was added at each end
    weights = density.clamp(min=0)
    low, high = float(grid[0]) + 0.05 * width, float(grid[-1]) - 0.05 * width
    return Ends(high, low, products[0], grid.numpy(), (weights / weights.sum()).numpy())


def curvlinops_best(net: Network, seed: int, steps: int) -> Ends:
    """``fast_lanczos`` alone, told the steps; the outermost nodes are the ends."""
    from curvlinops.papyan2020traces.spectrum import fast_lanczos

    with counted_curvlinops() as products:
        nodes, vectors = fast_lanczos(_curvlinops(net, seed), steps)
    return Ends(float(nodes[-1]), float(nodes[0]), products[0], nodes.numpy(), (vectors[0] ** 2).numpy())


def eigenthings_defaults(net: Network, seed: int, steps: int) -> Ends:
    """``lanczos`` at either end, and ``spectral_density`` of ten runs of 80 steps."""
    import hessian_eigenthings as he

    with counted(he.HessianOperator, "_hvp") as products:
        operator = he.HessianOperator(net.model, [net.batch], net.loss)
        top = he.lanczos(operator, which="LA", seed=seed).eigenvalues[0]
        bottom = he.lanczos(operator, which="SA", seed=seed).eigenvalues[0]
        density = he.spectral_density(operator, seed=seed)
    weights = density.raw_weights / len(density.raw_weights)
    nodes = density.raw_eigenvalues.reshape(-1).numpy()
    return Ends(float(top), float(bottom), products[0], nodes, weights.reshape(-1).numpy())


def eigenthings_best(net: Network, seed: int, steps: int) -> Ends:
    """``spectral_density`` of one run, told the steps; the outermost nodes are the ends."""
    import hessian_eigenthings as he

    with counted(he.HessianOperator, "_hvp") as products:
        operator = he.HessianOperator(net.model, [net.batch], net.loss)
        density = he.spectral_density(operator, num_runs=1, lanczos_steps=steps, seed=seed)
    nodes, weights = density.raw_eigenvalues[0].numpy(), density.raw_weights[0].numpy()
    return Ends(float(nodes[-1]), float(nodes[0]), products[0], nodes, weights)


def pyhessian_defaults(net: Network, seed: int, steps: int) -> Ends:
    """``density()``, 100 steps; the outermost nodes are the ends."""
    return pyhessian_best(net, seed, 100)


def pyhessian_best(net: Network, seed: int, steps: int) -> Ends:
    """``density(iter=steps)``, told the steps."""
    found, products = _pyhessian(net, seed, lambda h: h.density(iter=steps))
    nodes, weights = np.array(found[0][0]), np.array(found[1][0])
    order = np.argsort(nodes)
    return Ends(float(nodes.max()), float(nodes.min()), products, nodes[order], weights[order])


def pyhessian_power(net: Network, seed: int, steps: int) -> Ends:
    """``eigenvalues()``: the largest in size, by power iteration. No lower end, no density."""
    (values, _), products = _pyhessian(net, seed, lambda h: h.eigenvalues())
    return Ends(values[0], float("nan"), products)


OURS, ALONE, THEN = "ours", "ours, no density", ", then a quadrature"

EIGSH: dict[str, Method] = {
    f"eigsh, {calls}, tol {tolerance:g}": partial(by_eigsh, tolerance=tolerance, at_once=at_once)
    for calls, at_once in (("both ends at once", True), ("one end, then the other", False))
    for tolerance in (1e-3, 1e-2)
}
"""Its settings; by default it asks for all digits."""

APART = tuple(method for method in EIGSH if "then" in method)
"""Two calls make 40 products at least, 20 each before the first look: run once, to show it."""

METHODS: dict[str, tuple[str, Method]] = {
    OURS: ("", ours),
    ALONE: ("", ours_alone),
    **{name: ("", method) for name, method in EIGSH.items()},
    **{name + THEN: ("", partial(method, then=True)) for name, method in EIGSH.items()},
    "curvlinops, defaults": ("curvlinops", curvlinops_defaults),
    "curvlinops, told the steps": ("curvlinops", curvlinops_best),
    "hessian-eigenthings, defaults": ("hessian_eigenthings", eigenthings_defaults),
    "hessian-eigenthings, told the steps": ("hessian_eigenthings", eigenthings_best),
    "PyHessian, eigenvalues()": ("pyhessian", pyhessian_power),
    "PyHessian, defaults": ("pyhessian", pyhessian_defaults),
    "PyHessian, told the steps": ("pyhessian", pyhessian_best),
}
"""Name -> the package it needs, and the method."""

DEAREST = "hessian-eigenthings, defaults"
"""840 products on every network: run on the first one only, unless all are asked for."""

AT_ONCE = tuple(method for method in EIGSH if "then" not in method)
BY_START = (OURS, ALONE, *AT_ONCE)
"""What decides by itself when to stop: its products depend on the start, so more starts are made."""

AT_HARD = (OURS, *AT_ONCE, "curvlinops, defaults", "PyHessian, defaults")
"""Compared where eigenvalues lie close; what is told the steps is ours without knowing when to stop."""


def missing(package: str) -> bool:
    """Return whether a package cannot be imported here."""
    return bool(package) and importlib.util.find_spec(package) is None


@contextmanager
def counted(owner: Any, name: str, size: Callable[..., int] = lambda *a: 1) -> Iterator[list[int]]:
    """Count the calls of a function or method for the block."""
    count, inner = [0], getattr(owner, name)

    def outer(*args: Any, **kwargs: Any) -> Any:
        count[0] += size(*args)
        return inner(*args, **kwargs)

    with mock.patch.object(owner, name, outer):
        yield count


def counted_curvlinops() -> Any:
    """Count the columns that are multiplied by a batch's Hessian."""
    from curvlinops import HessianLinearOperator

    return counted(HessianLinearOperator, "_matmat_batch", lambda *args: int(args[-1][0].shape[-1]))


def _curvlinops(net: Network, seed: int) -> Any:
    from curvlinops import HessianLinearOperator

    torch.manual_seed(seed)
    np.random.seed(seed)
    return HessianLinearOperator(net.model, net.criterion, list(net.model.parameters()), [net.batch])


def _pyhessian(net: Network, seed: int, call: Callable[[Any], Any]) -> tuple[Any, int]:
    package = importlib.import_module("pyhessian.hessian")  # the name in the package is the class
    torch.manual_seed(seed)
    net.model.zero_grad(set_to_none=True)  # left from the last one, they would be added to
    with counted(package, "hessian_vector_product") as products, mock.patch.object(torch, "eig", _eig, create=True):
        found = call(package.hessian(net.model, net.criterion, data=net.batch, cuda=False))
    return found, products[0]


def _eig(matrix: torch.Tensor, eigenvectors: bool) -> tuple[torch.Tensor, torch.Tensor]:
    values, vectors = torch.linalg.eigh(matrix)
    return torch.stack([values, torch.zeros_like(values)], dim=1), vectors
