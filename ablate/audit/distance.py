"""How far a result of an arm is from the float64 reference, and whether rounding explains it.

Two explanations are tried, the cheap one first. **The bound**: of one sum of n terms that do not cancel, see
``error_bound``. **The simulation**, if the bound is exceeded: what rounding in every operation does to this very step
(``RoundingNoise``), so that cancellation, long chains and division by small numbers are covered. Only what exceeds
both is a bug. No relative error is ever formed, so a gradient that is 0 but for rounding is judged like any other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from ablate.audit.anchor import anchor
from ablate.audit.roundoff import FLOAT32, FLOAT64, name_of, unit_roundoff

Verdict = Literal["equal", "rounding", "reduced", "bug", "unjudged", "confounded"]
Simulate = Callable[[float], Sequence[Tensor]]

FAILURE = 1e-9
"""Probability with which the bound on one element's sum fails, under the model of ``error_bound``."""

FACTOR = 8.0
"""A bug is farther than ``FACTOR`` times the largest simulated distance. Why 8: let one number's error x and its
simulations be normal with one spread. All of 6 |y| are below |x| / 8 with probability at most
(0.8 / 8)^6 E|x|^6 = 15e-6. Norms of many elements vary less, and the simulated rounding is that of the worst order of
summation, many times what a blocked sum makes."""

_OUT_OF_RANGE = "{} cannot hold what the reference holds ({})"

FINE = 2.0**-40
"""Roundoff at which float64's own rounding is simulated, and scaled down from: a finer one drowns in float64."""

UPDATE_OPERATIONS = 32
"""More than the element-wise operations of one step of torch's optimisers, the longest chain a number goes through."""

WEIGHT_ROUNDINGS = 3
"""How often a step rounds the weights themselves: decay, the step, and a look-ahead or average."""


@dataclass(frozen=True)
class Distance:
    """One quantity of an arm against the reference; norms are Euclidean, over all elements.

    Attributes:
        quantity: loss, gradient, update or state.
        name: of the parameter, player or state entry.
        error: ||arm - reference||; NaN if it is not finite.
        scale: ||reference||.
        bound: largest error that a well-conditioned sum explains at ``roundoff``.
        noise: largest distance of the rounding simulation; None if it was not needed.
        own_error: ||arm's own code in float64 - reference||; None if it did not run.
        own_bound: the bound on it, at float64's unit roundoff; None likewise.
        roundoff: unit roundoff of the arm's precision.
        anchor: inner product of the reference with a fixed vector, to compare arms' references.
        verdict: equal, rounding, reduced (rounding, in a precision below float32), bug or unjudged; confounded is
            for callers that know of another cause.
        shape: of the quantity.
        dtype: of the arm's quantity, ``float32``.
        detail: the verdict in words.
    """

    quantity: str
    name: str
    error: float
    scale: float
    bound: float
    noise: float | None
    own_error: float | None
    own_bound: float | None
    roundoff: float
    anchor: float
    verdict: Verdict
    shape: tuple[int, ...]
    dtype: str
    detail: str

    @property
    def within_bound(self) -> bool:
        """Whether the cheap explanation is enough."""
        return self.error <= self.bound


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


def judge(
    *,
    quantity: str,
    name: str,
    arm: Tensor,
    reference: Tensor,
    roundoff: float,
    reduction: int,
    simulate: Simulate | None = None,
    own: Tensor | None = None,
    weights: Tensor | None = None,
    beyond_range: Callable[[], str] | None = None,
    overflowed: Callable[[], str] | None = None,
) -> Distance:
    """Compare one quantity with the reference and say what explains the difference.

    Args:
        quantity: see ``Distance``.
        name: see ``Distance``.
        arm: what the arm got, of any floating type, on any device.
        reference: the same in float64.
        roundoff: unit roundoff of the coarsest precision the arm computed in.
        reduction: terms of the step's longest sum.
        simulate: unit roundoff -> this quantity from simulations of rounding; called only if the bound is exceeded.
        own: the same from the arm's own code in float64.
        weights: what an update was added to; None for other quantities.
        beyond_range: -> where the reference left the range of the arm's type (``RangeSeen.beyond``), empty if nowhere;
            called only if the arm's value is not finite, and then forgives it.
        overflowed: -> the same above the range only (``RangeSeen.overflow``); called only for what would be a bug, and
            then leaves it unjudged. Without it a gradient that overflow cut to a finite value is called a bug.

    Raises:
        ValueError: if the shapes differ.
    """
    if arm.shape != reference.shape:
        raise ValueError(f"{quantity} {name}: shape {tuple(arm.shape)}, the reference's is {tuple(reference.shape)}")
    scale = norm(reference)

    def bound(u: float, stored: float) -> float:
        if weights is None:
            return error_bound(scale, u, reduction)
        return update_bound(scale, u, reduction, norm(weights), stored)

    made = Distance(
        quantity=quantity,
        name=name,
        error=distance(arm, reference),
        scale=scale,
        bound=bound(roundoff, unit_roundoff(arm.dtype if weights is None else weights.dtype)),
        noise=None,
        own_error=None,
        own_bound=None,
        roundoff=roundoff,
        anchor=anchor(reference, name),
        verdict="unjudged",
        shape=tuple(arm.shape),
        dtype=str(arm.dtype).removeprefix("torch."),
        detail="",
    )
    if own is not None:
        made = replace(made, own_error=distance(own, reference), own_bound=bound(FLOAT64, FLOAT64))
    if not math.isfinite(made.error):
        return _not_finite(made, arm, reference, beyond_range)
    judged = _judged(made, reference, simulate)
    overflow = overflowed() if judged.verdict == "bug" and overflowed is not None else ""
    if overflow:
        return replace(judged, verdict="unjudged", detail=_OUT_OF_RANGE.format(made.dtype, overflow))
    if judged.verdict == "bug" or judged.own_error is None or judged.own_bound is None or simulate is None:
        return judged
    if not judged.own_error > judged.own_bound:
        return judged
    explained = FACTOR * _largest(simulate(FINE), reference) * FLOAT64 / FINE
    return replace(judged, own_bound=max(judged.own_bound, explained))


def norm(t: Tensor) -> float:
    """Return the Euclidean norm in float64 on the CPU, scaled so that no square overflows or underflows."""
    x = _plain(t)
    if x.numel() == 0:
        return 0.0
    largest = float(x.abs().max())
    if largest == 0 or not math.isfinite(largest):
        return largest
    return largest * float(torch.linalg.vector_norm(x / largest))


def distance(a: Tensor, b: Tensor) -> float:
    """Return ||a - b||, as ``norm`` does; 0 for equal infinities in both, NaN wherever else either is not finite."""
    x, y = _plain(a), _plain(b)
    difference = torch.where(x == y, 0.0, x - y)
    found = norm(difference)
    return found if math.isfinite(found) else math.nan


def _plain(t: Tensor) -> Tensor:
    plain = t.detach().to(device="cpu")
    if plain.layout is not torch.strided:
        plain = plain.to_dense()
    plain = torch.view_as_real(plain.resolve_conj()) if plain.is_complex() else plain
    return plain.to(torch.float64).contiguous()


def _judged(made: Distance, reference: Tensor, simulate: Simulate | None) -> Distance:
    precision = name_of(made.roundoff)
    right: Verdict = "reduced" if made.roundoff > FLOAT32 else "rounding"
    if made.error == 0:
        return replace(made, verdict="equal", detail="equal to the float64 reference")
    if made.within_bound:
        return replace(made, verdict=right, detail=f"within what rounding in {precision} explains")
    if simulate is None:
        return replace(made, detail="farther than a well-conditioned sum explains; rounding was not simulated")
    largest = _largest(simulate(max(FINE, made.roundoff)), reference) * min(1.0, made.roundoff / FINE)
    if math.isnan(largest):
        return replace(made, detail="farther than a well-conditioned sum explains; simulated rounding is not finite")
    if made.error <= FACTOR * largest:
        words = f"ill-conditioned: simulated rounding in {precision} moves it by up to {largest:.2g}"
        return replace(made, noise=largest, verdict=right, detail=words)
    times = f", {made.error / made.bound:.2g} times what a sum in {precision} explains" if made.bound else ""
    words = (
        f"{made.error:.2g} from the float64 reference{times}; simulated rounding in {precision} moves it by "
        f"{largest:.2g} at most"
    )
    return replace(made, noise=largest, verdict="bug", detail=words + _own_words(made))


def _largest(simulated: Sequence[Tensor], reference: Tensor) -> float:
    """Return the largest distance from the reference; NaN if one is not finite or there is none."""
    found = [distance(one, reference) for one in simulated]
    return max(found) if found and all(math.isfinite(one) for one in found) else math.nan


def _own_words(made: Distance) -> str:
    if made.own_error is None or made.own_bound is None:
        return ""
    if not made.own_error <= made.own_bound:
        return f"; the same code in float64 is {made.own_error:.2g} away, so precision does not explain it"
    return f"; the same code in float64 is {made.own_error:.2g} away, so it shows in {made.dtype} only"


def _not_finite(made: Distance, arm: Tensor, reference: Tensor, beyond_range: Callable[[], str] | None) -> Distance:
    if not bool(torch.isfinite(_plain(reference)).all()):
        return replace(made, detail="the float64 reference is not finite")
    if bool(torch.isfinite(_plain(arm)).all()):
        return replace(made, detail="the distance is beyond the range of float64")
    if beyond_range is None:
        return replace(made, detail=f"not finite, the reference is; {made.dtype} may have overflowed")
    where = beyond_range()
    if where:
        return replace(made, detail="not finite: " + _OUT_OF_RANGE.format(made.dtype, where))
    words = f"not finite, though nothing the reference computes is beyond the range of {made.dtype}"
    return replace(made, verdict="bug", detail=words + _own_words(made))
