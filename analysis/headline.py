"""Cause, size and headline of a contrast, from its evidence: pure functions.

The evidence is hashes (weights, data, order, draws), the saved-tensor guard, the distances to a float64 reference,
recorded losses and outcomes. Only what was held against float64 on both sides is called rounding; where that is
missing the cause of a difference is UNKNOWN, with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from analysis.audited import Audited
from analysis.confounding import Mismatch
from analysis.divergence import Divergence
from analysis.guard_findings import Coverage
from analysis.reference_agreement import Disagreement
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
        audit: what the audit saw on the reference's and on the other side.
        disagreement: a value whose float64 references differ between the sides; None if there is none.
        declared: what the grid itself changes between the sides, in words; empty if they should do the same.
        divergence: where the losses part.
        outcomes_equal: whether every paired outcome is equal.
    """

    mismatches: tuple[Mismatch, ...]
    guard: tuple[Coverage, Coverage]
    audit: tuple[Audited, Audited]
    disagreement: Disagreement | None
    declared: str
    divergence: Divergence
    outcomes_equal: bool

    @property
    def bitwise_equal(self) -> bool:
        """Whether every recorded loss and every outcome is equal."""
        return self.divergence.bitwise_equal and self.outcomes_equal

    @property
    def fault(self) -> bool:
        """Whether the guard or the audit found one on either side, or the sides' references differ."""
        found = any(side.fault for side in self.guard) or any(side.fault for side in self.audit)
        return found or self.disagreement is not None


def cause(evidence: Evidence) -> Cause:
    """Return why the sides differ, the first that applies."""
    if evidence.mismatches:
        return "CONFOUNDED"
    if evidence.fault:
        return "BUG"
    if evidence.bitwise_equal:
        return "BITWISE EQUAL"
    if unknown(evidence):
        return "UNKNOWN"
    return "REDUCED PRECISION" if reduced(evidence.audit) else "ROUNDING"


def unknown(evidence: Evidence) -> str:
    """Say why a difference that is neither confounded nor a fault cannot be called rounding; empty if it can."""
    if evidence.declared:
        return evidence.declared
    if not any(side.batches or side.unseen for side in evidence.audit):
        return "neither side was held against a float64 reference"
    reasons = (side.why_not for side in evidence.audit)
    return "; ".join(dict.fromkeys(reason for reason in reasons if reason))


def reduced(audit: tuple[Audited, Audited]) -> tuple[Audited, ...]:
    """Return the sides whose precision explains a difference: coarser than the other's, or else than float32."""
    known = [side for side in audit if side.precision is not None]
    coarser = [one for one in known if any(_coarser(one, peer) for peer in known)]
    return tuple(coarser or [side for side in known if side.precision and side.precision.reduced])


def _coarser(a: Audited, b: Audited) -> bool:
    return bool(a.precision and b.precision and a.precision.coarser_than(b.precision.roundoff))


def headline(why: Cause, size: Size, beyond_one_ulp: bool | None) -> Headline:
    """Return the one word for a contrast.

    Args:
        why: its cause.
        size: how large its gap is.
        beyond_one_ulp: whether the gap is shown to be another than the one-ulp control's; None without one.

    Returns:
        Headline: a fault wins over everything, whatever the outcomes say.
    """
    if why in ("CONFOUNDED", "BUG", "BITWISE EQUAL"):
        return why
    if size in ("EQUIVALENT", "DIFFERENT BUT NEGLIGIBLE"):
        return "CHAOS" if why == "ROUNDING" else "EQUIVALENT"
    return "SYSTEMATIC" if size == "DIFFERENT" and beyond_one_ulp else "INCONCLUSIVE"
