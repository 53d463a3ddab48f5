"""A fault that the audit found in one side of a contrast: the first one, and how common it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.audit_row import SAVED, AuditRow

ORDER = ("distance", "slope", "continuity", "free")
"""What is named first where several checks find a fault in one batch: where it is before what follows from it."""

FORWARD = ("loss", "gradient", "update")
"""A wrong loss has wrong gradients; an update is judged given the arm's own gradient."""


@dataclass(frozen=True)
class AuditFault:
    """A loss, gradient, update or state that rounding does not explain.

    Attributes:
        arms: arms it was seen in, sorted.
        block: block of the trial where it was seen first.
        row: what was found there.
        parameter: whether the row's name is a parameter's, and not a direction's.
        others: further names with a fault of the same kind in that batch of that trial.
        trials: trials with any fault.
    """

    arms: tuple[str, ...]
    block: int
    row: AuditRow
    parameter: bool
    others: tuple[str, ...]
    trials: int


def first_fault(rows: Sequence[AuditRow]) -> AuditFault | None:
    """Return the fault to name of one side's audits: earliest batch, then the order of the checks, then the largest.

    Args:
        rows: audits of one side's trials.
    """
    faults = [row for row in rows if row.verdict == "bug" and row.check != SAVED]
    if not faults:
        return None
    row = min(faults, key=_first)
    here = [one for one in faults if (one.trial_id, one.batch_index, one.check) == _place(row)]
    others = dict.fromkeys(one.name for one in here if one.quantity == row.quantity and one.name != row.name)
    parameters = {one.name for one in rows if one.check == "distance" and one.quantity in FORWARD[1:]}
    return AuditFault(
        arms=tuple(sorted({one.arm for one in faults})),
        block=row.block,
        row=row,
        parameter=row.name in parameters,
        others=tuple(name for name in others if name),
        trials=len({one.trial_id for one in faults}),
    )


def _place(row: AuditRow) -> tuple[str, int, str]:
    return row.trial_id, row.batch_index, row.check


def _first(row: AuditRow) -> tuple[int, int, int, int, float, str]:
    check = ORDER.index(row.check) if row.check in ORDER else len(ORDER)
    quantity = FORWARD.index(row.quantity) if row.quantity in FORWARD else len(FORWARD)
    size = float("inf") if row.share is None else row.share
    return row.batch_index, check, quantity, row.block, -size, row.name
