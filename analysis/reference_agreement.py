"""Do the float64 references of both sides agree? If not, the arms do not compute the same function.

Each arm is held against a reference of its own, which starts from that arm's weights. Where weights, batch and draws
are equal by hash, so must be the references, up to rounding in float64. They are compared by norm and by their inner
product with a fixed vector of signs, without storing them.

Compared are losses and gradients of the first batch. An update's reference starts from the arm's own gradient, and a
second player's from where the arm's first one stepped to: these differ by the arms' rounding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from analysis.audit_row import AuditRow
from analysis.audited import START
from analysis.pairing import Match
from analysis.precision import PASSED, UNITS

COMPARED = ("loss", "gradient")

SLACK = 1e-9
"""Share of the norm below which a difference is rounding in float64, whose unit is 1e-16: that leaves a factor of ten
million for long sums and for conditioning. A change of the function that is smaller is not found here."""

EITHER = 2.0
"""Both references round, each by as much as its bound says."""


@dataclass(frozen=True)
class Disagreement:
    """A value whose float64 references differ between the sides.

    Attributes:
        block: block of the matched trials.
        quantity: loss or gradient.
        name: its parameter or player.
        difference: of the norms or of the inner products with the fixed vector, whichever is more.
        scale: the larger norm.
        others: further names of that quantity in that pair of trials.
    """

    block: int
    quantity: str
    name: str
    difference: float
    scale: float
    others: int

    @property
    def relative(self) -> float:
        """The difference as a share of the norm."""
        return self.difference / self.scale if self.scale > 0 else 1.0


def disagreement(matches: Sequence[Match], audits: Mapping[str, Sequence[AuditRow]]) -> Disagreement | None:
    """Compare the references of matched trials in their first batch.

    Args:
        matches: matched pairs of trials of two arms in one precision, without a declared perturbation.
        audits: rows by trial id.

    Returns:
        Disagreement | None: the first pair of trials that disagrees, and in it the first quantity (loss before
        gradients) and largest share; None if all agree or nothing can be compared.
    """
    for match in matches:
        mine, theirs = match.reference, match.other
        initial = mine.hashes.get("initial_hash")
        if initial is None or initial != theirs.hashes.get("initial_hash"):
            continue
        reference, other = (_values(audits.get(trial.trial_id, ())) for trial in (mine, theirs))
        for quantity in COMPARED:
            keys = [key for key in reference if key[0] == quantity and key in other]
            found = [one for key in keys if (one := _compare(match.block, reference[key], other[key]))]
            if found:
                worst = max(found, key=lambda one: one.relative)
                return Disagreement(
                    worst.block, worst.quantity, worst.name, worst.difference, worst.scale, len(found) - 1
                )
    return None


def _values(rows: Sequence[AuditRow]) -> dict[tuple[str, str], AuditRow]:
    usable = (*PASSED, "bug")
    first = [row for row in rows if row.check == "distance" and row.batch_index == START and row.quantity in COMPARED]
    if sum(row.count for row in first if row.quantity == "loss") > 1:  # several players
        return {}
    return {(row.quantity, row.name): row for row in first if row.verdict in usable}


def _compare(block: int, mine: AuditRow, theirs: AuditRow) -> Disagreement | None:
    if mine.anchor is None or theirs.anchor is None or mine.scale is None or theirs.scale is None:
        return None
    scale = max(mine.scale, theirs.scale)
    difference = max(abs(mine.anchor - theirs.anchor), abs(mine.scale - theirs.scale))
    if difference <= max(SLACK * scale, EITHER * max(_float64(mine), _float64(theirs))):
        return None
    return Disagreement(block, mine.quantity, mine.name, difference, scale, 0)


def _float64(row: AuditRow) -> float:
    """Return what rounding in float64 explains of a reference: its own bound, or the arm's scaled to float64's unit."""
    scaled = 0.0
    if row.allowed is not None and row.roundoff:
        scaled = row.allowed * UNITS["float64"] / row.roundoff
    return max(scaled, row.own_bound or 0.0)
