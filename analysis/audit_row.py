"""One row of ``audits`` as the analysis sees it: what the guard or the comparison with float64 found in one batch."""

from __future__ import annotations

import math
from dataclasses import dataclass

SAVED = "saved_tensors"

SIMULATIONS = 8.0
"""A simulation of rounding explains so many times the largest distance it gave: the factor that the audit judges by."""


@dataclass(frozen=True)
class AuditRow:
    """One row of ``audits``. Distances are Euclidean norms; one that was not finite is None.

    Attributes:
        trial_id: trial it belongs to.
        arm: that trial's arm.
        block: that trial's block.
        batch_index: batch that was looked at.
        check: ``saved_tensors``, ``undeclared_draws``, ``draw_state``, ``distance``, ``continuity``, ``free``,
            ``slope``, ``precision``, ``departure`` or ``scope``.
        verdict: clean, overwritten, refused (torch's own version check stopped it) or drawn; of a distance equal,
            rounding, reduced, bug, unjudged or confounded (its draws were others).
        count: tensors checked (clean), overwritten, or numbers drawn; values of one quantity that a distance stands
            for, of which it is the worst.
        shape: shape of the tensor.
        near: parameter or module nearby, the name of the draw or of a generator, or an operation.
        source: user's source line, ``file.py:12``.
        role: what it is to the operation whose backward needs it, ``target of MseLossBackward0``; or a file.
        quantity: loss, gradient, update or state.
        name: parameter, player, state entry or direction.
        error: distance of the arm's value from the float64 reference's.
        scale: norm of the reference's value.
        bound: what rounding at ``roundoff`` explains.
        noise: largest distance in a simulation of rounding; None where it was not needed.
        own_error: distance of the arm's own code, run in float64, from the reference; None where it could not run.
        own_bound: what rounding in float64 explains of it.
        roundoff: unit roundoff of the arm's arithmetic.
        anchor: inner product of the reference's value with a fixed vector.
        reference: arm whose settings the reference has.
        dtype: precision in words.
        detail: what was found, in words; or a hash.
        lent: trial whose audit found it for all arms that run its code (``analysis.lent_slopes``), in place of this
            one's; ``arm`` and ``block`` are then that one's. Empty for a trial's own.
    """

    trial_id: str
    arm: str
    block: int
    batch_index: int
    check: str
    verdict: str
    count: int
    shape: tuple[int, ...] = ()
    near: str = ""
    source: str = ""
    role: str = ""
    quantity: str = ""
    name: str = ""
    error: float | None = None
    scale: float | None = None
    bound: float | None = None
    noise: float | None = None
    own_error: float | None = None
    own_bound: float | None = None
    roundoff: float | None = None
    anchor: float | None = None
    reference: str = ""
    dtype: str = ""
    detail: str = ""
    lent: str = ""

    @property
    def allowed(self) -> float | None:
        """What rounding explains, by its bound or by its simulation, whichever is more."""
        if self.noise is None:
            return self.bound
        simulated = SIMULATIONS * self.noise
        return simulated if self.bound is None else max(self.bound, simulated)

    @property
    def share(self) -> float | None:
        """The error as a share of what rounding explains; None where that says nothing."""
        allowed = self.allowed
        if self.error is None or allowed is None:
            return None
        return self.error / allowed if allowed > 0 else (0.0 if self.error == 0 else None)

    @property
    def relative(self) -> float | None:
        """The error as a share of the reference's norm; None without one above zero."""
        return None if self.error is None or not self.scale else _finite(self.error / self.scale)


@dataclass(frozen=True)
class QuietRow(AuditRow):
    """All the watched batches of one trial in which no saved tensor was overwritten; ``count`` is of all of them.

    Attributes:
        batches: how many they are.
    """

    batches: int = 1


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
