"""The trace: of a Krylov space exactly, and of its complement by XTrace (Epperly, Tropp and Webber 2024) with signs.

With Q an orthonormal basis of a space and P = 1 - Q Q', tr A = tr(Q' A Q) + tr(P A P). The first is the sum of what
Lanczos has on its diagonal, and the ends of the spectrum have paid for it (Chen and Hallman 2022). For the second every
probe serves as a direction and as a sample, in turn. Signs leave out what the diagonal of the rest adds to a variance
(Hutchinson 1990).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.linalg import null_space
from torch import Tensor

from ablate.curvature.lanczos import Array, Krylov

FEWEST = 6
"""Three test vectors, two products each: the error is had by leaving one of them out."""


@dataclass(frozen=True)
class Trace:
    """An estimate of the trace, its standard error, and the products it took."""

    value: float
    standard_error: float
    products: int


def deflated(krylov: Krylov, products: int, generator: torch.Generator) -> Trace:
    """Estimate the trace of a symmetric operator.

    Args:
        krylov: a space of it, whose start has nothing to do with the generator's draws.
        products: how many to spend, at least ``FEWEST``; two for each test vector.
        generator: of the signs, on the operator's device.

    Raises:
        ValueError: too few products.
    """
    if products < FEWEST:
        raise ValueError(f"{products} products, but a trace and its error need {FEWEST} at least")
    n, known = krylov.dimension, float(sum(krylov.diagonal))
    m = min(products // 2, n - len(krylov))
    if m < products // 2:  # all that is left can be spanned
        rest = [float(v @ krylov.image(v)) for v in _complement(krylov)]
        return Trace(known + sum(rest), 0.0, len(rest))
    drawn = torch.randn(n, m, dtype=torch.float64, device=generator.device, generator=generator)
    estimate, error = outside(krylov, torch.sign(drawn))
    return Trace(known + estimate, error, 2 * m)


def outside(krylov: Krylov, tests: Tensor) -> tuple[float, float]:
    """Return the trace outside a space, estimated from test vectors, the columns of ``tests`` (n, m), and its error.

    The error is the jackknife's: that of the mean over what one test vector fewer gives. It is too large rather than
    too small on average (Efron and Stein 1981). The estimates' own spread would be too small, since they share most of
    their directions.
    """
    h, w, r = small(krylov, tests)
    diagonal = np.abs(np.diag(r))
    if (diagonal <= np.finfo(np.float64).eps * krylov.dimension * diagonal.max()).any():
        return float(np.trace(h)), 0.0  # the range is spanned whole, also without any one test
    m = len(h)
    fewer = np.array([estimates(*_without(i, h, w, r)).mean() for i in range(m)])
    error = np.sqrt((m - 1) / m * ((fewer - fewer.mean()) ** 2).sum())
    return float(estimates(h, w, r).mean()), float(error)


def small(krylov: Krylov, tests: Tensor) -> tuple[Array, Array, Array]:
    """Return what ``estimates`` needs of the operator outside a space, at two products for each column of ``tests``."""
    tests = _outside(krylov, tests)
    basis, triangle = torch.linalg.qr(_outside(krylov, _images(krylov, tests)))
    inner = _outside(krylov, _images(krylov, _outside(krylov, basis)))  # of a small range the basis has other columns
    h = (basis.T @ inner).cpu().numpy()
    return (h + h.T) / 2, (basis.T @ tests).cpu().numpy(), triangle.cpu().numpy()


def estimates(h: Array, w: Array, r: Array) -> Array:
    """Return an estimate (m,) from each test; its mean is the trace for tests with the unit matrix as covariance.

    With W the tests, Q an orthonormal basis of A W, and Q_i one of A W without its i-th column, it is tr(Q_i' A Q_i)
    and the remainder along w_i outside Q_i. Q_i spans Q less the direction Q s_i, where s_i is the i-th column of R^-T,
    normalised; so all m need only small matrices.

    Args:
        h: (m, m) Q' A Q.
        w: (m, m) Q' W.
        r: (m, m) Q' A W, with an inverse.
    """
    s = np.linalg.inv(r).T
    s /= np.linalg.norm(s, axis=0)
    inside = w - s * (s * w).sum(axis=0)
    rest = (w * r).sum(axis=0) - 2 * (r * inside).sum(axis=0) + (inside * (h @ inside)).sum(axis=0)
    return np.asarray(np.trace(h) - (s * (h @ s)).sum(axis=0) + rest)


def _without(i: int, h: Array, w: Array, r: Array) -> tuple[Array, Array, Array]:
    """Return the small matrices of all tests but one."""
    basis, triangle = np.linalg.qr(np.delete(r, i, axis=1))
    return basis.T @ h @ basis, basis.T @ np.delete(w, i, axis=1), triangle


def _outside(krylov: Krylov, columns: Tensor) -> Tensor:
    return torch.stack([krylov.outside(column) for column in columns.T], dim=1)


def _images(krylov: Krylov, columns: Tensor) -> Tensor:
    return torch.stack([krylov.image(column) for column in columns.T], dim=1)


def _complement(krylov: Krylov) -> Tensor:
    """Return an orthonormal basis, as rows, of what few dimensions a space leaves out."""
    basis = krylov.basis
    return torch.from_numpy(null_space(basis.cpu().numpy())).to(basis.device).T
