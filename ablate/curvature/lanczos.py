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

from ablate.curvature.basis import Basis
from ablate.curvature.unseen import chance, largest_mass

Array = np.ndarray[Any, np.dtype[np.float64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]
Product = Callable[[Tensor], Tensor]

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
        image: (n,) the product with the normalised start, where it has been made already; None: it is made.

    Attributes:
        rounding: how far a product is from that of a symmetric operator: norm of the components that symmetry makes
            zero, times sqrt(n / components looked at), as if the error pointed anywhere. Grows as it is seen.
        exhausted: the space is invariant: every residual is 0, up to rounding.
    """

    def __init__(
        self, product: Product, start: Tensor, against: Tensor | None = None, image: Tensor | None = None
    ) -> None:
        self._product = product
        self._image = image
        self._against = against
        start = self._deflated(start)
        self._rows = Basis(start / start.norm())
        self._alpha: list[float] = []
        self._beta: list[float] = []
        self.rounding = 0.0
        self.exhausted = False

    def __len__(self) -> int:
        return len(self._alpha)

    @property
    def basis(self) -> Tensor:
        """Orthonormal rows, (m, n): a copy where there are many."""
        return self._rows.rows(len(self))

    def extend(self) -> None:
        """Add one dimension, at the cost of one product."""
        m = len(self)
        image = self._product(self._rows.last) if self._image is None else self._image
        image, self._image = self._deflated(image.to(torch.float64)), None
        coefficients = self._rows.along(image, m + 1)
        self._alpha.append(float(coefficients[m]))
        if m >= 4:  # symmetry says that all but the last two are zero
            stray = float(coefficients[: m - 1].norm()) * float(np.sqrt(len(image) / (m - 1)))
            self.rounding = max(self.rounding, stray)
        rest = image - self._rows.combined(coefficients)
        beta = float(rest.norm())
        if beta < CANCELLED * float(image.norm()):  # once more: the first pass leaves what cancellation left
            rest -= self._rows.combined(self._rows.along(rest, m + 1))
            beta = float(rest.norm())
        scale = max(map(abs, [*self._alpha, *self._beta]))
        if m + 1 == len(image) - self._deflated_rank or beta <= np.finfo(np.float64).eps * len(self) * scale:
            self.exhausted, beta = True, 0.0
        self._beta.append(beta)
        if not self.exhausted:
            self._rows.add(rest / beta)

    def ritz(self) -> Ritz:
        """Return the Ritz pairs of the space so far."""
        values, inner = eigh_tridiagonal(np.array(self._alpha), np.array(self._beta[:-1]))
        return Ritz(values, np.abs(self._beta[-1] * inner[-1]), inner[0], inner)

    @property
    def dimension(self) -> int:
        """Length of the vectors."""
        return self._rows.dimension

    @property
    def diagonal(self) -> list[float]:
        """The diagonal of the operator in the basis, (m,)."""
        return list(self._alpha)

    def unseen(self, place: float, random: float = 1.0) -> float:
        """Return how likely an eigenvalue at ``place`` or farther out left no trace, at most.

        Args:
            place: outside the Ritz values.
            random: share of the start's square that points anywhere alike.
        """
        mass = largest_mass(self._alpha, self._beta, place) / random
        return chance(mass, self.dimension - self._deflated_rank)

    def image(self, vector: Tensor) -> Tensor:
        """Return the operator's product with a vector (n,)."""
        return self._product(vector).to(torch.float64)

    def outside(self, vector: Tensor) -> Tensor:
        """Return the part of a vector (n,) outside the space and what it stays orthogonal to."""
        vector, m = self._deflated(vector), len(self)
        vector = vector - self._rows.combined(self._rows.along(vector, m))
        return vector - self._rows.combined(self._rows.along(vector, m))

    def inside(self, vector: Tensor) -> Tensor:
        """Return a vector's components (m,) in the basis."""
        return self._rows.along(vector, len(self))

    def vectors(self, inner: Array) -> Tensor:
        """Return vectors given in the basis as columns (m, j), as rows (j, n)."""
        weights = torch.from_numpy(np.ascontiguousarray(inner.T)).to(self._rows.last.device)
        return self._rows.combined(weights)

    @property
    def _deflated_rank(self) -> int:
        return 0 if self._against is None else len(self._against)

    def _deflated(self, vector: Tensor) -> Tensor:
        if self._against is None or not len(self._against):
            return vector
        return vector - (self._against @ vector) @ self._against
