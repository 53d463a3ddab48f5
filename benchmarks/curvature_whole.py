"""Densities and traces of the small networks, held against the whole matrix, at equal products."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import wasserstein_distance

from ablate.curvature import Hessian, Plan, look, objective
from ablate.curvature.edges import grow
from ablate.curvature.lanczos import Array, Krylov
from ablate.curvature.trace import deflated
from benchmarks.curvature_methods import METHODS, TOLERANCE, missing
from benchmarks.curvature_networks import TRAINED, network

TRACE_PRODUCTS, TRACE_SEEDS, DENSITY_SEEDS = 99, 40, 20
FOREIGN_SEEDS, PLAIN_SEEDS = 5, 10
"""Starts of packages that take the network itself."""

PLAIN_MOST = 120
"""Most steps of a plain quadrature in search of our density's error."""


def density(name: str, folder: Path, seeds: int) -> dict[str, Any]:
    """Compare densities and traces with the whole spectrum of the small network, at equal products.

    Distances are Wasserstein-1, relative to that of the spectrum from zero, the mean of |eigenvalue|; means over seeds.
    """
    net = network(name, small=True)
    net.train(TRAINED)
    target = objective(net.model, net.loss, [net.batch])
    hessian = Hessian(target)
    matrix = torch.stack([hessian @ e for e in torch.eye(hessian.dimension)])
    matrix = (matrix + matrix.T) / 2
    true = np.linalg.eigvalsh(matrix.numpy())
    scale = float(np.abs(true).mean())
    measures: dict[str, list[float]] = {}
    products, steps = [], []
    for seed in range(DENSITY_SEEDS):
        found = look(Hessian(target), Plan(tolerance=TOLERANCE, seed=seed))
        assert found.density is not None
        ritz, of_ours = found.edges.ritz, found.density
        products.append(found.products)
        steps.append(len(ritz.values))
        made = {"ours": (of_ours.nodes, of_ours.weights), "plain quadrature": (ritz.values, ritz.first**2)}
        for method, (package, call) in METHODS.items():
            if seed < FOREIGN_SEEDS and "told the steps" in method and not missing(package):
                other = call(net, seed, len(ritz.values))
                made[method.replace("told the steps", "same steps")] = (other.nodes, other.weights)
        for key, (nodes, weights) in made.items():
            measures.setdefault(key, []).append(wasserstein_distance(nodes, true, weights) / scale)
    mean = float(np.mean(measures["ours"]))
    return {
        "parameters": hessian.dimension,
        "steps": float(np.mean(steps)),
        "plain_steps": _plain_steps(matrix, true, mean * scale),
        "plain_most": PLAIN_MOST,
        "largest_share": float(true[-1] / true.sum()),
        "products": products,
        "w1": {key: float(np.mean(errors)) for key, errors in measures.items()},
        "w1_errors": {key: float(np.std(errors, ddof=1) / len(errors) ** 0.5) for key, errors in measures.items()},
        **_traces(matrix),
    }


def _plain_steps(matrix: torch.Tensor, true: Array, error: float) -> int | None:
    """Return after how many steps a plain quadrature's mean error is no larger; None: after more than ``PLAIN_MOST``.

    Its starts are signs as ours are, without which it would need more.
    """
    errors = np.zeros(PLAIN_MOST)
    for seed in range(PLAIN_SEEDS):
        krylov = Krylov(
            lambda v: matrix @ v, torch.randn(len(matrix), generator=torch.Generator().manual_seed(seed)).sign()
        )
        for step in range(PLAIN_MOST):
            krylov.extend()
            ritz = krylov.ritz()
            errors[step] += wasserstein_distance(ritz.values, true, ritz.first**2) / PLAIN_SEEDS
    enough = np.flatnonzero(errors <= error)
    return int(enough[0]) + 1 if len(enough) else None


class _Counted:
    """A matrix as an operator that hessian-eigenthings takes, and that counts its products."""

    def __init__(self, matrix: torch.Tensor) -> None:
        self.matrix, self.products = matrix, 0
        self.shape, self.dtype, self.device = matrix.shape, matrix.dtype, matrix.device
        self.size = len(matrix)

    def matvec(self, vector: torch.Tensor) -> torch.Tensor:
        """Return a product."""
        self.products += 1
        return self.matrix @ vector

    __matmul__ = matvec


def _traces(matrix: torch.Tensor) -> dict[str, dict[str, float]]:
    """Return root mean squared relative errors of trace estimates at 99 products, and these errors' own.

    All on the whole matrix, which costs little, so that many seeds can be had. Ours spends some of the products on the
    ends of the spectrum, as a probe does.
    """
    true = float(matrix.trace())
    ways: dict[str, Callable[[int], float]] = {"ours": lambda s: _our_trace(matrix, s)}
    if not missing("curvlinops"):
        from curvlinops import hutchinson_trace, hutchpp_trace
        from curvlinops import xtrace as their_xtrace

        ways["curvlinops, Hutchinson"] = lambda s: float(hutchinson_trace(matrix, TRACE_PRODUCTS))
        ways["curvlinops, Hutch++"] = lambda s: float(hutchpp_trace(matrix, TRACE_PRODUCTS))
        ways["curvlinops, XTrace"] = lambda s: float(their_xtrace(matrix, TRACE_PRODUCTS - 1))
    if not missing("hessian_eigenthings"):
        import hessian_eigenthings as he

        for method in ("hutchinson", "hutch++"):
            ways[f"hessian-eigenthings, {method}"] = lambda s, m=method: (
                he.trace(_Counted(matrix), num_matvecs=TRACE_PRODUCTS, method=m, seed=s).estimate  # type: ignore[misc]
            )
    errors, spreads = {}, {}
    for way, estimate in ways.items():
        squares = []
        for seed in range(TRACE_SEEDS):
            torch.manual_seed(seed)
            squares.append((estimate(seed) / true - 1) ** 2)
        errors[way] = float(np.mean(squares)) ** 0.5
        spreads[way] = float(np.std(squares, ddof=1)) / TRACE_SEEDS**0.5 / (2 * errors[way])
    return {"trace": errors, "trace_errors": spreads}


def _our_trace(matrix: torch.Tensor, seed: int) -> float:
    operator, draws = _Counted(matrix), torch.Generator().manual_seed(seed)
    krylov = Krylov(operator.matvec, torch.randn(operator.size, generator=draws))
    grow(krylov, TOLERANCE, TRACE_PRODUCTS)
    found = deflated(krylov, TRACE_PRODUCTS - operator.products, draws)
    assert operator.products <= TRACE_PRODUCTS
    return found.value
