"""The trace by XTrace (Epperly, Tropp and Webber 2024): every probe serves as a direction and as a sample, in turn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from ablate.curvature.lanczos import Product


@dataclass(frozen=True)
class Trace:
    """An estimate of the trace, its standard error, and the products it took."""

    value: float
    standard_error: float
    products: int


def xtrace(product: Product, dimension: int, products: int, generator: torch.Generator) -> Trace:
    """Estimate the trace of a symmetric operator.

    With m test vectors W (n, m), Q an orthonormal basis of A W, and Q_i one of A W without its i-th column, each
    estimate is tr(Q_i' A Q_i) plus the unbiased remainder along w_i outside Q_i. Q_i spans Q less the direction Q s_i,
    where s_i is the i-th column of R^-T, normalised; so all m need only the (m, m) matrices Q' A Q, Q' W and R.

    Args:
        product: the operator.
        dimension: n.
        products: how many to spend, at least 4; two for each test vector.
        generator: of the test vectors, on the operator's device.
    """
    m, device = min(products // 2, dimension), generator.device
    if m < 2:
        raise ValueError(f"{products} products, but XTrace needs 4 at least, and a dimension of 2")
    tests = torch.randn(dimension, m, dtype=torch.float64, device=device, generator=generator)
    images = torch.stack([product(w).to(torch.float64) for w in tests.T], dim=1)
    basis, triangle = torch.linalg.qr(images)
    inner = torch.stack([product(q).to(torch.float64) for q in basis.T], dim=1)
    h = (basis.T @ inner).cpu().numpy()
    h = (h + h.T) / 2
    w = (basis.T @ tests).cpu().numpy()
    r = triangle.cpu().numpy()
    norms = (tests * tests).sum(dim=0).cpu().numpy()
    rank = int((np.abs(np.diag(r)) > np.finfo(np.float64).eps * dimension * np.abs(r).max(initial=0.0)).sum())
    if rank < m:  # the range is spanned whole: the trace is that of the small matrix
        return Trace(float(np.trace(h)), 0.0, 2 * m)
    s = np.linalg.inv(r).T
    s /= np.linalg.norm(s, axis=0)
    estimates = np.empty(m)
    for i in range(m):
        p = w[:, i] - s[:, i] * (s[:, i] @ w[:, i])
        left = norms[i] - p @ p
        outside = w[:, i] @ r[:, i] - 2 * (r[:, i] @ p) + p @ h @ p
        # a Gaussian's part outside Q_i, scaled to the mean squared length it has in n - m + 1 dimensions
        estimates[i] = np.trace(h) - s[:, i] @ h @ s[:, i] + (dimension - m + 1) * outside / left
    return Trace(float(estimates.mean()), float(estimates.std(ddof=1) / np.sqrt(m)), 2 * m)
