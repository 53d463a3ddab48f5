"""Near a minimum, near a saddle, on a slope, or undecided: by a stated rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ablate.curvature.lanczos import Array

Kind = Literal["near a minimum", "near a saddle", "on a slope", "undecided"]


@dataclass(frozen=True)
class Decrement:
    """What a step to the quadratic model's critical point would change the loss by: between ``least`` and ``most``.

    Half the sum of g_i^2 / |lambda_i| over eigendirections (the decrement of the saddle-free Newton method, Dauphin et
    al. 2014). It is known in Ritz directions whose curvature is above the floor. What is left of the gradient has at
    most the largest curvature, which gives ``least``, and counts as if it had the floor's, which gives ``most``.
    """

    least: float
    most: float


def decrement(squares: Array, values: Array, gradient_square: float, floor: float) -> Decrement:
    """Return the decrement.

    Args:
        squares: (m,) squared components of the gradient along Ritz vectors.
        values: (m,) Ritz values, the outermost ones among them.
        gradient_square: squared norm of the gradient.
        floor: smallest curvature that counts.
    """
    curved = np.abs(values) > floor
    known = float((squares[curved] / np.abs(values[curved])).sum()) / 2
    rest = max(gradient_square - float(squares[curved].sum()), 0.0)
    if rest <= 4 * len(squares) * np.finfo(np.float64).eps * gradient_square:
        rest = 0.0  # all of it is known, up to the rounding of the sum
    return Decrement(known + _over(rest, 2 * float(np.abs(values).max())), known + _over(rest, 2 * floor))


def _over(a: float, b: float) -> float:
    return 0.0 if a == 0 else a / b if b > 0 else float("inf")


def classify(found: Decrement, loss: float, critical: float, negative: bool, resolved: bool) -> tuple[Kind, str]:
    """Return the kind of point and the evidence in words.

    Near a critical point: the decrement is at most ``critical`` times the loss. There, near a saddle if an eigenvalue
    below minus the floor is certain; near a minimum if the lower edge converged and none is.

    Args:
        found: the decrement.
        loss: at the point.
        critical: the largest decrement over the loss.
        negative: whether an eigenvalue below minus the floor is certain.
        resolved: whether the lower edge converged.
    """
    limit = critical * abs(loss)
    size = f"reaching the nearest critical point of the quadratic model would change the loss {loss:.4g} by "
    if found.least > limit:
        return "on a slope", f"{size}at least {found.least:.3g}, more than {critical:.0%} of it"
    if found.most > limit:
        where = "the gradient lies in directions of small or unknown curvature"
        return "undecided", f"{size}between {found.least:.3g} and {found.most:.3g}: {where}"
    near = f"{size}at most {found.most:.3g}, within {critical:.0%} of it"
    if negative:
        return "near a saddle", f"{near}; an eigenvalue below minus the floor is certain"
    if resolved:
        return "near a minimum", f"{near}; the lower edge converged above minus the floor"
    return "undecided", f"{near}; the lower edge has not converged"
