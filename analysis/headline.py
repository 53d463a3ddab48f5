"""Cause, size and headline of a contrast, as far as the evidence goes: a pure function.

The evidence so far is hashes (weights, data, order, draws), the saved-tensor guard, recorded losses and outcomes.
Whether a gradient agrees with a float64 reference is not among it, so a difference that is neither confounded nor a
fault of saved tensors has the cause UNKNOWN, and says that it was not audited.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from analysis.confounding import Mismatch
from analysis.divergence import Divergence
from analysis.guard_findings import Coverage
from analysis.size import Size

Cause = Literal["CONFOUNDED", "BUG", "REDUCED PRECISION", "ROUNDING", "BITWISE EQUAL", "UNKNOWN"]
Headline = Literal["BUG", "CONFOUNDED", "SYSTEMATIC", "INCONCLUSIVE", "CHAOS", "EQUIVALENT", "BITWISE EQUAL"]

WORST_FIRST: tuple[Headline, ...] = (
    "BUG",
    "CONFOUNDED",
    "SYSTEMATIC",
    "INCONCLUSIVE",
    "CHAOS",
    "EQUIVALENT",
    "BITWISE EQUAL",
)
"""Which contrast's verdict a report opens with."""


@dataclass(frozen=True)
class Evidence:
    """What a contrast's cause rests on.

    Attributes:
        mismatches: streams that differ between the sides and should not.
        guard: what the guard saw on the reference's and on the other side.
        divergence: where the losses part.
        outcomes_equal: whether every paired outcome is equal.
    """

    mismatches: tuple[Mismatch, ...]
    guard: tuple[Coverage, Coverage]
    divergence: Divergence
    outcomes_equal: bool

    @property
    def bitwise_equal(self) -> bool:
        """Whether every recorded loss and every outcome is equal."""
        return self.divergence.bitwise_equal and self.outcomes_equal


def cause(evidence: Evidence) -> Cause:
    """Return why the sides differ, the first that applies."""
    if evidence.mismatches:
        return "CONFOUNDED"
    if any(side.fault for side in evidence.guard):
        return "BUG"
    return "BITWISE EQUAL" if evidence.bitwise_equal else "UNKNOWN"


def headline(why: Cause, size: Size, beyond_one_ulp: bool | None) -> Headline:
    """Return the one word for a contrast.

    Args:
        why: its cause.
        size: how large its gap is.
        beyond_one_ulp: whether the gap, minus the one-ulp control's over the same blocks, excludes 0; None without one.

    Returns:
        Headline: a fault wins over everything, whatever the outcomes say.
    """
    if why in ("CONFOUNDED", "BUG", "BITWISE EQUAL"):
        return why
    if size in ("EQUIVALENT", "DIFFERENT BUT NEGLIGIBLE"):
        return "CHAOS" if why == "ROUNDING" else "EQUIVALENT"
    return "SYSTEMATIC" if size == "DIFFERENT" and beyond_one_ulp else "INCONCLUSIVE"
