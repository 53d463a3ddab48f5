"""The norms that every judgement of one quantity goes by: taken once, whatever precision it is then judged at."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from ablate.audit.bounds import error_bound, update_bound
from ablate.audit.norms import distance, norm
from ablate.audit.roundoff import FLOAT64, unit_roundoff


@dataclass(frozen=True)
class Measured:
    """One quantity of an arm beside the reference's, and the norms that every judgement of the two goes by.

    Attributes:
        quantity: loss, gradient, update or state.
        name: of the parameter, player or state entry.
        arm: what the arm got, of any floating type, on any device.
        reference: the same in float64.
        error: ||arm - reference||; NaN if it is not finite.
        scale: ||reference||.
        own_error: ||arm's own code in float64 - reference||; None if it did not run.
        weights: ||weights|| that an update was added to; None for other quantities.
        stored: unit roundoff of the type that the arm's result is kept in; of an update, the weights'.
    """

    quantity: str
    name: str
    arm: Tensor = field(repr=False)
    reference: Tensor = field(repr=False)
    error: float
    scale: float
    own_error: float | None
    weights: float | None
    stored: float

    def bound(self, roundoff: float, reduction: int, stored: float) -> float:
        """Return what a well-conditioned sum of ``reduction`` terms explains at ``roundoff``."""
        if self.weights is None:
            return error_bound(self.scale, roundoff, reduction)
        return update_bound(self.scale, roundoff, reduction, self.weights, stored)

    def exceeds(self, roundoff: float, reduction: int) -> bool:
        """Whether it, or the arm's own code in float64, is farther off than that; true if it is not finite."""
        if self.own_error is not None and not self.own_error <= self.bound(FLOAT64, reduction, FLOAT64):
            return True
        return not self.error <= self.bound(roundoff, reduction, self.stored)


def measure(
    quantity: str, name: str, arm: Tensor, reference: Tensor, own: Tensor | None = None, weights: Tensor | None = None
) -> Measured:
    """Take the norms of one quantity.

    Args:
        quantity: see ``Measured``.
        name: see ``Measured``.
        arm: see ``Measured``.
        reference: see ``Measured``.
        own: the same from the arm's own code in float64; the reference itself if that is what its code gave.
        weights: what an update was added to; None for other quantities.

    Raises:
        ValueError: if the shapes differ.
    """
    if arm.shape != reference.shape:
        raise ValueError(f"{quantity} {name}: shape {tuple(arm.shape)}, the reference's is {tuple(reference.shape)}")
    own_error = None if own is None else 0.0 if own is reference else distance(own, reference)
    return Measured(
        quantity=quantity,
        name=name,
        arm=arm,
        reference=reference,
        error=distance(arm, reference),
        scale=norm(reference),
        own_error=own_error,
        weights=None if weights is None else norm(weights),
        stored=unit_roundoff(arm.dtype if weights is None else weights.dtype),
    )
