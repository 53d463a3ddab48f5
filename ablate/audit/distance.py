"""How far a result of an arm is from the float64 reference, and whether rounding explains it.

Two explanations are tried, the cheap one first. **The bound**: of one sum of n terms that do not cancel, see
``error_bound``. **The simulation**, if the bound is exceeded: what rounding in every operation does to this very step
(``RoundingNoise``), so that cancellation, long chains and division by small numbers are covered. Only what exceeds
both is a bug. No relative error is ever formed, so a gradient that is 0 but for rounding is judged like any other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from ablate.audit.anchor import anchor
from ablate.audit.measured import Measured
from ablate.audit.narrow_noise import NARROW
from ablate.audit.norms import distance, plain
from ablate.audit.roundoff import FLOAT32, FLOAT64, name_of

Verdict = Literal["equal", "rounding", "reduced", "bug", "unjudged", "confounded"]
Simulate = Callable[[float], Sequence[Tensor]]

FACTOR = 8.0
"""A bug is farther than ``FACTOR`` times the largest simulated distance. Why 8: let one number's error x and its
simulations be normal with one spread. All of 6 |y| are below |x| / 8 with probability at most
(0.8 / 8)^6 E|x|^6 = 15e-6. Norms of many elements vary less, and the simulated rounding is that of the worst order of
summation, many times what a blocked sum makes."""

FINE = 2.0**-40
"""Roundoff at which float64's own rounding is simulated, and scaled down from: a finer one drowns in float64."""

_OUT_OF_RANGE = "{} cannot hold what the reference holds ({})"


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
        verdict: equal, rounding, reduced (rounding, in a precision below float32), bug or unjudged; confounded is
            for callers that know of another cause.
        shape: of the quantity.
        dtype: of the arm's quantity, ``float32``.
        detail: the verdict in words.
        reference: the float64 tensor.
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
    verdict: Verdict
    shape: tuple[int, ...]
    dtype: str
    detail: str
    reference: Tensor = field(repr=False, compare=False)

    @property
    def within_bound(self) -> bool:
        """Whether the cheap explanation is enough."""
        return self.error <= self.bound

    @cached_property
    def anchor(self) -> float:
        """Inner product of the reference with a fixed vector, to compare arms' references."""
        return anchor(self.reference, self.name)


def judge(
    measured: Measured,
    *,
    roundoff: float,
    reduction: int,
    simulate: Simulate | None = None,
    beyond_range: Callable[[], str] | None = None,
    overflowed: Callable[[], str] | None = None,
    held_in: torch.dtype | None = None,
) -> Distance:
    """Say what explains the distance of one quantity from the reference.

    Args:
        measured: the quantity.
        roundoff: unit roundoff of the coarsest precision the arm computed in.
        reduction: terms of the step's longest sum.
        simulate: unit roundoff -> this quantity from simulations of rounding; called only if the bound is exceeded.
        beyond_range: -> where the reference left the range of the arm's type (``RangeSeen.beyond``), empty if nowhere;
            called only if the arm's value is not finite, and then forgives it.
        overflowed: -> the same above the range only (``RangeSeen.overflow``); called only for what would be a bug, and
            then leaves it unjudged. Without it a gradient that overflow cut to a finite value is called a bug.
        held_in: the type that the arm's numbers were held in, which gives its precision a name and its range.
    """
    reference = measured.reference
    made = Distance(
        quantity=measured.quantity,
        name=measured.name,
        error=measured.error,
        scale=measured.scale,
        bound=measured.bound(roundoff, reduction, measured.stored),
        noise=None,
        own_error=measured.own_error,
        own_bound=None if measured.own_error is None else measured.bound(FLOAT64, reduction, FLOAT64),
        roundoff=roundoff,
        verdict="unjudged",
        shape=tuple(reference.shape),
        dtype=str(measured.arm.dtype).removeprefix("torch."),
        detail="",
        reference=reference,
    )
    if not math.isfinite(made.error):
        return _not_finite(made, measured.arm, beyond_range, held_in)
    judged = _judged(made, measured, simulate, held_in)
    overflow = overflowed() if judged.verdict == "bug" and overflowed is not None else ""
    if overflow:
        return replace(judged, verdict="unjudged", detail=_OUT_OF_RANGE.format(_held(made, held_in), overflow))
    if judged.verdict in ("bug", "unjudged") or simulate is None:
        return judged
    if judged.own_error is None or judged.own_bound is None or not judged.own_error > judged.own_bound:
        return judged
    try:
        finest = simulate(FINE)
    except Exception as error:
        return replace(judged, verdict="unjudged", detail=f"its own code in float64 is not judged; {_failed(error)}")
    explained = FACTOR * _largest(finest, reference) * FLOAT64 / FINE
    return replace(judged, own_bound=max(judged.own_bound, explained))


def _judged(made: Distance, measured: Measured, simulate: Simulate | None, held_in: torch.dtype | None) -> Distance:
    precision = name_of(made.roundoff, held_in)
    right: Verdict = "reduced" if made.roundoff > FLOAT32 else "rounding"
    if made.error == 0:
        return replace(made, verdict="equal", detail="equal to the float64 reference")
    if made.within_bound:
        return replace(made, verdict=right, detail=f"within what rounding in {precision} explains")
    if simulate is None:
        return replace(made, detail="farther than a well-conditioned sum explains; rounding was not simulated")
    try:
        simulated = simulate(max(FINE, made.roundoff))
    except Exception as error:  # the user's code, under a mode that it may not work under; the distance is kept
        return replace(made, detail=f"farther than a well-conditioned sum explains; {_failed(error)}")
    largest = _largest(simulated, made.reference) * min(1.0, made.roundoff / FINE)
    if math.isnan(largest):
        return replace(made, detail="farther than a well-conditioned sum explains; simulated rounding is not finite")
    if made.error <= FACTOR * largest:
        words = f"ill-conditioned: simulated rounding in {precision} moves it by up to {largest:.2g}"
        if held_in in NARROW and (lost := _lost(measured)):
            words = f"{lost:.0%} of its elements underflow to zero in {_held(made, held_in)}: scale the loss"
        return replace(made, noise=largest, verdict=right, detail=words)
    times = f", {made.error / made.bound:.2g} times what a sum in {precision} explains" if made.bound else ""
    words = (
        f"{made.error:.2g} from the float64 reference{times}; simulated rounding in {precision} moves it by "
        f"{largest:.2g} at most"
    )
    return replace(made, noise=largest, verdict="bug", detail=words + _own_words(made))


def _failed(error: Exception) -> str:
    return "simulating rounding failed: " + " ".join(f"{type(error).__name__}: {error}".split())


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


def _lost(measured: Measured) -> float:
    """Return the share of the reference's elements, those of 0 apart, that are 0 in the arm."""
    exact, arm = plain(measured.reference) != 0, plain(measured.arm) == 0
    return float((exact & arm).sum()) / max(1, int(exact.sum()))


def _held(made: Distance, held_in: torch.dtype | None) -> str:
    return str(held_in).removeprefix("torch.") if held_in in NARROW else made.dtype


def _not_finite(
    made: Distance, arm: Tensor, beyond_range: Callable[[], str] | None, held_in: torch.dtype | None
) -> Distance:
    if not bool(torch.isfinite(plain(made.reference)).all()):
        if made.quantity == "update" and held_in in NARROW:
            return replace(made, verdict="reduced", detail="not finite, nor is the gradient that it was made from")
        return replace(made, detail="the float64 reference is not finite")
    if bool(torch.isfinite(plain(arm)).all()):
        return replace(made, detail="the distance is beyond the range of float64")
    if beyond_range is None:
        return replace(made, detail=f"not finite, the reference is; {made.dtype} may have overflowed")
    where = beyond_range()
    if where:
        words = "not finite: " + _OUT_OF_RANGE.format(_held(made, held_in), where)
        return replace(made, verdict="reduced" if held_in in NARROW else "unjudged", detail=words)
    words = f"not finite, though nothing the reference computes is beyond the range of {made.dtype}"
    return replace(made, verdict="bug", detail=words + _own_words(made))
