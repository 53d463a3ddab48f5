"""The ends of a spectrum that is complex, from one Krylov space of an operator that is not symmetric.

Arnoldi with full reorthogonalisation, twice (Saad 2011, Numerical methods for large eigenvalue problems, section 6.2).
One space serves the largest and smallest real part and the largest imaginary part; a restarted one, as in ARPACK, is
run for each, and its convergence stalls where many eigenvalues have one real part, as in a bilinear game.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from ablate.curvature.lanczos import Product

End = Literal["largest real", "smallest real", "largest imaginary"]
ENDS: tuple[End, ...] = ("largest real", "smallest real", "largest imaginary")
Complex = np.ndarray[Any, np.dtype[np.complex128]]

SETTLED = 3
"""Over so many steps every value has to stand still too: residuals alone do not see what the space has not met."""

FEWEST_STEPS = 8


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


def ends_of(values: Complex, count: int) -> dict[End, list[int]]:
    """Return which values stand at each end, outermost first; of a conjugate pair the upper one only."""
    upper = [i for i in range(len(values)) if values[i].imag >= 0]
    order = {
        "largest real": lambda i: (-values[i].real, -values[i].imag),
        "smallest real": lambda i: (values[i].real, -values[i].imag),
        "largest imaginary": lambda i: (-values[i].imag, -values[i].real),
    }
    return {end: sorted(upper, key=order[end])[:count] for end in ENDS}


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
        product: the operator, float64 in and out.
        start: (n,), not zero.
        tolerance: largest residual, relative to the largest eigenvalue in size.
        most_steps: most products.
        count: how many values at each end.
        tick: told the number of products after each.
    """
    n = len(start)
    basis = [start / start.norm()]
    projected = np.zeros((most_steps + 1, most_steps))
    history: list[Complex] = []
    while True:
        m = len(basis)
        rows = torch.stack(basis)
        image = product(basis[-1]).to(torch.float64)
        coefficients = rows @ image
        rest = image - coefficients @ rows
        again = rows @ rest  # once more: the first pass leaves what cancellation left
        rest -= again @ rows
        projected[:m, m - 1] = (coefficients + again).cpu().numpy()
        below = float(rest.norm())
        if tick:
            tick(m)
        square = projected[:m, :m]
        values, vectors = np.linalg.eig(square)
        size = float(np.linalg.norm(square, 2))
        rounding = m * float(np.finfo(np.float64).eps) * size
        exhausted = m == n or below <= rounding
        residuals = (0.0 if exhausted else below) * np.abs(vectors[-1]) + rounding
        ends = ends_of(values, count)
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
        basis.append(rest / below)
