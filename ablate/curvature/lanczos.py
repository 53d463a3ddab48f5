"""One Krylov space of a symmetric operator: Lanczos, reorthogonalised in full, twice where needed (Parlett 1998, 6.9).

With a basis that is orthogonal to working precision, Ritz values have no ghost copies, each is a Rayleigh quotient
(so at least as many eigenvalues lie below a number as Ritz values do), and the last entry of a Ritz vector gives the
residual of its pair.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.linalg import eigh_tridiagonal
from torch import Tensor

Array = np.ndarray[Any, np.dtype[np.float64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]
Product = Callable[[Tensor], Tensor]

ROWS = 48
"""Rows of the basis are allocated so many at a time, and never moved: no moment holds more than one block to spare."""

CANCELLED = 0.5
"""An image of which less than this is new is made orthogonal twice (Daniel, Gragg, Kaufman and Stewart 1976): once
leaves eps over this share of the basis in it, and Ritz values ask for no more than sqrt(eps) (Simon 1984)."""


@dataclass(frozen=True)
class Ritz:
    """Ritz pairs of a Krylov space of dimension m, by ascending value.

    Attributes:
        values: (m,).
        residuals: (m,), the norm of A y - value y for each Ritz vector y, before rounding.
        first: (m,), the first entry of each vector in the basis: its square is the pair's weight in the quadrature.
        inner: (m, m), the vectors in the basis, a column each.
    """

    values: Array
    residuals: Array
    first: Array
    inner: Array


class Krylov:
    """The space spanned by a start vector and its images, grown one product at a time.

    Args:
        product: the operator; float64 in, float64 out.
        start: (n,), not zero; normalised here.
        against: (k, n) orthonormal rows the space stays orthogonal to (deflated pairs); None for none.

    Attributes:
        rounding: how far a product is from that of a symmetric operator: norm of the components that symmetry makes
            zero, times sqrt(n / components looked at), as if the error pointed anywhere. Grows as it is seen.
        exhausted: the space is invariant: every residual is 0, up to rounding.
    """

    def __init__(self, product: Product, start: Tensor, against: Tensor | None = None) -> None:
        self._product = product
        self._against = against
        start = self._deflated(start)
        self._blocks: list[Tensor] = []
        self._add(0, start / start.norm())
        self._alpha: list[float] = []
        self._beta: list[float] = []
        self.rounding = 0.0
        self.exhausted = False

    def __len__(self) -> int:
        return len(self._alpha)

    @property
    def basis(self) -> Tensor:
        """Orthonormal rows, (m, n): a copy where there are many."""
        return torch.cat(self._rows(len(self)))

    def extend(self) -> None:
        """Add one dimension, at the cost of one product."""
        m = len(self)
        rows = self._rows(m + 1)
        image = self._deflated(self._product(rows[-1][-1]).to(torch.float64))
        coefficients = _along(rows, image)
        self._alpha.append(float(coefficients[m]))
        if m >= 4:  # symmetry says that all but the last two are zero
            stray = float(coefficients[: m - 1].norm()) * float(np.sqrt(len(image) / (m - 1)))
            self.rounding = max(self.rounding, stray)
        rest = image - _sum(rows, coefficients)
        beta = float(rest.norm())
        if beta < CANCELLED * float(image.norm()):  # once more: the first pass leaves what cancellation left
            rest -= _sum(rows, _along(rows, rest))
            beta = float(rest.norm())
        scale = max(map(abs, [*self._alpha, *self._beta]))
        if m + 1 == len(image) - self._deflated_rank or beta <= np.finfo(np.float64).eps * len(self) * scale:
            self.exhausted, beta = True, 0.0
        self._beta.append(beta)
        if not self.exhausted:
            self._add(m + 1, rest / beta)

    def ritz(self) -> Ritz:
        """Return the Ritz pairs of the space so far."""
        values, inner = eigh_tridiagonal(np.array(self._alpha), np.array(self._beta[:-1]))
        return Ritz(values, np.abs(self._beta[-1] * inner[-1]), inner[0], inner)

    @property
    def dimension(self) -> int:
        """Length of the vectors."""
        return self._blocks[0].shape[1]

    @property
    def diagonal(self) -> list[float]:
        """The diagonal of the operator in the basis, (m,)."""
        return list(self._alpha)

    def image(self, vector: Tensor) -> Tensor:
        """Return the operator's product with a vector (n,)."""
        return self._product(vector).to(torch.float64)

    def outside(self, vector: Tensor) -> Tensor:
        """Return the part of a vector (n,) outside the space and what it stays orthogonal to."""
        vector = self._deflated(vector)
        rows = self._rows(len(self))
        vector = vector - _sum(rows, _along(rows, vector))
        return vector - _sum(rows, _along(rows, vector))

    def inside(self, vector: Tensor) -> Tensor:
        """Return a vector's components (m,) in the basis."""
        return _along(self._rows(len(self)), vector)

    def vectors(self, inner: Array) -> Tensor:
        """Return vectors given in the basis as columns (m, j), as rows (j, n)."""
        weights = torch.from_numpy(np.ascontiguousarray(inner.T)).to(self._blocks[0].device)
        return _sum(self._rows(len(self)), weights)

    @property
    def _deflated_rank(self) -> int:
        return 0 if self._against is None else len(self._against)

    def _deflated(self, vector: Tensor) -> Tensor:
        if self._against is None or not len(self._against):
            return vector
        return vector - (self._against @ vector) @ self._against

    def _add(self, at: int, row: Tensor) -> None:
        if at % ROWS == 0:
            shape = min(ROWS, len(row) - at), len(row)
            self._blocks.append(torch.empty(shape, dtype=torch.float64, device=row.device))
        self._blocks[at // ROWS][at % ROWS] = row

    def _rows(self, count: int) -> list[Tensor]:
        """Return the first rows, block by block."""
        return [block[: count - i * ROWS] for i, block in enumerate(self._blocks) if count > i * ROWS]


def _along(rows: list[Tensor], vector: Tensor) -> Tensor:
    return torch.cat([block @ vector for block in rows])


def _sum(rows: list[Tensor], weights: Tensor) -> Tensor:
    """Return the combination (..., n) of rows with weights (..., m)."""
    parts = torch.split(weights, [len(block) for block in rows], dim=-1)
    total = parts[0] @ rows[0]
    for part, block in zip(parts[1:], rows[1:], strict=True):
        total += part @ block
    return total
