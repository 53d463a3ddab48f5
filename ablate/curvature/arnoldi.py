"""The ends of a spectrum that is complex, from one Krylov space of an operator that is not symmetric.

Arnoldi with full reorthogonalisation, twice (Saad 2011, Numerical methods for large eigenvalue problems, section 6.2).
One space serves the largest and smallest real part and the largest imaginary part; a restarted one, as in ARPACK, is
run for each, and needs many restarts where many eigenvalues have one real part, as in a bilinear game.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from ablate.curvature.basis import Basis
from ablate.curvature.edges import FEWEST_STEPS, SETTLED
from ablate.curvature.lanczos import Array, Product

End = Literal["largest real", "smallest real", "largest imaginary"]
ENDS: tuple[End, ...] = ("largest real", "smallest real", "largest imaginary")
Complex = np.ndarray[Any, np.dtype[np.complex128]]


@dataclass(frozen=True)
class Root:
    """One eigenvalue at an end of the spectrum; of a conjugate pair the one with a positive imaginary part.

    Attributes:
        real: its real part.
        imaginary: its imaginary part, not negative.
        residual: norm of A y - value y for the unit vector y, and rounding: of an operator that far away it is an
            eigenvalue. How far this one's is may be more, since the operator is not normal.
        converged: whether the residual is within the tolerance of the largest eigenvalue, and the value stood still.
        ends: where it stands outermost.
    """

    real: float
    imaginary: float
    residual: float
    converged: bool
    ends: tuple[End, ...]


def ends_of(values: Complex, count: int, rounding: float) -> dict[End, list[int]]:
    """Return which values stand at each end, outermost first; of a conjugate pair the upper one only.

    Args:
        values: (m,).
        count: how many at each end.
        rounding: parts that differ by no more are equal, and the other part decides: in a bilinear game every real part
            is 0, and which one's rounding is the largest changes with every step.
    """
    upper = np.flatnonzero(values.imag >= 0)
    real, imaginary = values.real[upper], values.imag[upper]
    keys: dict[End, tuple[Array, Array]] = {
        "largest real": (-real, -imaginary),
        "smallest real": (real, -imaginary),
        "largest imaginary": (-imaginary, -real),
    }
    return {
        end: upper[np.lexsort((then, _tied(first, rounding)))][:count].tolist() for end, (first, then) in keys.items()
    }


def _tied(keys: Array, rounding: float) -> Array:
    """Return the rank of each key, the same for neighbours that are no farther apart than ``rounding``."""
    order = np.argsort(keys)
    ranks = np.empty(len(keys))
    ranks[order] = np.cumsum(np.diff(keys[order], prepend=keys[order[:1]]) > rounding)
    return ranks


def roots(values: Complex, residuals: Any, converged: Any, ends: dict[End, list[int]]) -> tuple[Root, ...]:
    """Return the values that stand at an end, by descending real part."""
    chosen = sorted({i for found in ends.values() for i in found}, key=lambda i: (-values[i].real, -values[i].imag))
    return tuple(
        Root(
            float(values[i].real),
            float(values[i].imag),
            float(residuals[i]),
            bool(converged[i]),
            tuple(end for end in ENDS if i in ends[end]),
        )
        for i in chosen
    )


def grow(
    product: Product,
    start: Tensor,
    tolerance: float,
    most_steps: int,
    count: int = 1,
    tick: Callable[[int], None] | None = None,
) -> tuple[Root, ...]:
    """Extend a Krylov space until the outermost values have converged, or it has ``most_steps`` dimensions.

    Args:
        product: the operator, float64 in; what comes out says by its precision how far rounding goes.
        start: (n,), not zero.
        tolerance: largest residual, relative to the largest eigenvalue in size.
        most_steps: most products.
        count: how many values at each end.
        tick: told the number of products after each.
    """
    n = len(start)
    rows = Basis(start / start.norm())
    projected = np.zeros((most_steps + 1, most_steps))
    history: list[Complex] = []
    while True:
        m = len(rows)
        image = product(rows.last)
        eps = torch.finfo(image.dtype).eps
        image = image.to(torch.float64)
        coefficients = rows.along(image, m)
        rest = image - rows.combined(coefficients)
        again = rows.along(rest, m)  # once more: the first pass leaves what cancellation left
        rest -= rows.combined(again)
        projected[:m, m - 1] = (coefficients + again).cpu().numpy()
        below = float(rest.norm())
        if tick:
            tick(m)
        square = projected[:m, :m]
        values, vectors = np.linalg.eig(square)
        size = float(np.linalg.norm(square, 2))
        rounding = m * eps * size
        exhausted = m == n or below <= rounding
        residuals = (0.0 if exhausted else below) * np.abs(vectors[-1]) + rounding
        ends = ends_of(values, count, rounding)
        wanted = values[[i for end in ENDS for i in ends[end]]]
        history = [*history[-SETTLED:], wanted]
        allowed = tolerance * float(np.abs(values).max())
        alike = [past for past in history if len(past) == len(wanted)]
        still = len(alike) > SETTLED and max(np.abs(past - wanted).max() for past in alike) <= allowed
        good = (residuals <= allowed) & still if not exhausted else np.ones(m, dtype=bool)
        done = m >= FEWEST_STEPS and all(good[i] for end in ENDS for i in ends[end])
        if exhausted or done or m >= most_steps:
            return roots(values, residuals, good, ends)
        projected[m, m - 1] = below
        rows.add(rest / below)
