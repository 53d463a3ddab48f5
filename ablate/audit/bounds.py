"""The cheap explanation of a distance to float64: what rounding does to one sum that does not cancel."""

from __future__ import annotations

import math

from ablate.audit.roundoff import FLOAT32

FAILURE = 1e-9
"""Probability with which the bound on one element's sum fails, under the model of ``error_bound``."""

UPDATE_OPERATIONS = 32
"""More than the element-wise operations of one step of torch's optimisers, the longest chain a number goes through."""

WEIGHT_ROUNDINGS = 3
"""How often a step rounds the weights themselves: decay, the step, and a look-ahead or average."""


def error_bound(scale: float, roundoff: float, reduction: int, extra_abs: float = 0.0) -> float:
    """Return the largest error of a well-conditioned sum: (u + l sqrt(n) s) scale + extra_abs; s = min(u, 2**-24).

    Higham and Mary, A new approach to probabilistic rounding error analysis (SIAM J. Sci. Comput. 41(5), 2019),
    theorem 2.4: if the n rounding errors are independent with mean 0, a sum of n terms has a relative error up to
    exp(l sqrt(n) u + n u^2 / (1 - u)) - 1, except with probability 2 n exp(-l^2 (1 - u)^2 / 2). To first order this
    is l sqrt(n) u; setting the probability to ``FAILURE`` gives l = sqrt(2 ln(2 n / FAILURE)), 7.8 for n = 7200.

    Sums are carried in float32 at least, whatever the precision of their terms (s); a coarser precision rounds the
    factors of each term and the result, independently, which gives l u without the sqrt(n).

    Args:
        scale: norm of the exact result.
        roundoff: unit roundoff u.
        reduction: terms n, at least 1.
        extra_abs: error that does not grow with the result.
    """
    n = max(1, reduction)
    spread = math.sqrt(2 * math.log(2 * n / FAILURE))
    summed = spread * math.sqrt(n) * min(roundoff, FLOAT32)
    rounded = spread * roundoff if roundoff > FLOAT32 else 0.0
    return (summed + rounded) * scale + extra_abs


def update_bound(scale: float, roundoff: float, reduction: int, weights: float, stored: float) -> float:
    """Return the largest error of one optimiser step's change of the weights, given its gradient.

    The change is made by at most ``UPDATE_OPERATIONS`` element-wise operations; the new weights are rounded to the
    type they are stored in, ``WEIGHT_ROUNDINGS`` times at most, each by u ||weights|| at most.

    Args:
        scale: norm of the exact change.
        roundoff: unit roundoff of the arithmetic.
        reduction: terms of the longest sum, for optimisers that sum (norms, products).
        weights: norm of the weights.
        stored: unit roundoff of the weights' type.
    """
    return error_bound(scale, roundoff, max(UPDATE_OPERATIONS, reduction), WEIGHT_ROUNDINGS * stored * weights)
