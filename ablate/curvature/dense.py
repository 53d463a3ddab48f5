"""The whole Hessian, for models small enough: every eigenvalue, so nothing is estimated."""

from __future__ import annotations

import numpy as np
import torch

from ablate.curvature.lanczos import Array, Product


def spectrum(product: Product, dimension: int, device: torch.device) -> tuple[Array, Array, float]:
    """Return eigenvalues (n,) ascending, eigenvectors (n, n) as columns, and a bound on each eigenvalue's error.

    The bound is half the distance between the matrix of products and its transpose, which a Hessian does not have, and
    the backward error of the eigenvalue solver, n units roundoff of the norm.
    """
    rows = torch.stack([product(e).to(torch.float64) for e in torch.eye(dimension, dtype=torch.float64, device=device)])
    matrix = rows.cpu().numpy()
    skew = float(np.linalg.norm(matrix - matrix.T)) / 2
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return values, vectors, skew + dimension * float(np.finfo(np.float64).eps) * float(np.abs(values).max())
