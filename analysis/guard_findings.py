"""What the saved-tensor guard saw on each side of a contrast, and what it covered."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from analysis.audit_row import SAVED, AuditRow, QuietRow

DRAWS = "undeclared_draws"
FAULTS = ("overwritten", "refused")


@dataclass(frozen=True)
class Fault:
    """A tensor that changed between forward and backward: the first one seen, and how common it is.

    Attributes:
        arms: arms it was seen in, sorted.
        batch: first batch it was seen at.
        shape: the tensor's shape.
        role: what it is to the operation whose backward needs it; may be empty.
        near: parameter or module nearby; may be empty.
        source: user's source line that saved it; may be empty.
        per_batch: tensors overwritten in that batch of that trial.
        batches: watched batches with such a tensor, over all trials.
        refused: whether torch's own version check stopped it, so that no wrong gradient was used.
    """

    arms: tuple[str, ...]
    batch: int
    shape: tuple[int, ...]
    role: str
    near: str
    source: str
    per_batch: int
    batches: int
    refused: bool


@dataclass(frozen=True)
class Coverage:
    """What the guard looked at on one side of a contrast.

    Attributes:
        label: the side.
        batches: batches watched, over all trials.
        tensors: saved tensors checked, over all batches.
        fault: what it found; None if nothing.
        draws: names of random draws made outside ``ctx.draw``, sorted.
    """

    label: str
    batches: int
    tensors: int
    fault: Fault | None
    draws: tuple[str, ...]


def coverage(label: str, trial_ids: Iterable[str], audits: Iterable[AuditRow]) -> Coverage:
    """Sum up what the guard saw in the trials of one side.

    Args:
        label: the side's name.
        trial_ids: its trials.
        audits: rows of any trials.

    Returns:
        Coverage: nothing watched is 0 batches, which is not the same as nothing found.
    """
    mine = set(trial_ids)
    rows = [row for row in audits if row.trial_id in mine]
    saved = [row for row in rows if row.check == SAVED]
    drawn = {row.near or row.source or "unnamed" for row in rows if row.check == DRAWS and row.verdict == "drawn"}
    return Coverage(
        label=label,
        batches=_watched(saved),
        tensors=sum(row.count for row in saved),
        fault=_fault([row for row in saved if row.verdict in FAULTS]),
        draws=tuple(sorted(drawn)),
    )


def _watched(saved: Sequence[AuditRow]) -> int:
    """Count batches: one with a finding may have several rows, and the quiet ones of a trial have one together."""
    alone = {(row.trial_id, row.batch_index) for row in saved if not isinstance(row, QuietRow)}
    return len(alone) + sum(row.batches for row in saved if isinstance(row, QuietRow))


def _fault(rows: Sequence[AuditRow]) -> Fault | None:
    if not rows:
        return None
    first = min(rows, key=lambda row: (row.batch_index, row.block, row.trial_id))
    here = [row for row in rows if (row.trial_id, row.batch_index) == (first.trial_id, first.batch_index)]
    return Fault(
        arms=tuple(sorted({row.arm for row in rows})),
        batch=first.batch_index,
        shape=first.shape,
        role=first.role,
        near=first.near,
        source=first.source,
        per_batch=sum(row.count for row in here),
        batches=len({(row.trial_id, row.batch_index) for row in rows}),
        refused=all(row.verdict == "refused" for row in rows),
    )
