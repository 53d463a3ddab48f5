"""What the audit found, in words: a fault as a sentence, coverage as a line."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.audit_fault import AuditFault
from analysis.audit_row import AuditRow
from analysis.audited import Audited, thing
from analysis.digits import number, plural, share, times
from analysis.headline import reduced
from analysis.reference_agreement import Disagreement

MOST_NAMED = 3


def fault_words(audit: tuple[Audited, Audited]) -> str:
    """Return the audit's fault as a sentence without a headline.

    Args:
        audit: of reference and other, at least one of them with a fault; the other's is named first.
    """
    reference, other = audit
    side, peer = (other, reference) if other.fault else (reference, other)
    fault = side.fault
    assert fault is not None, "called for a contrast with a fault"
    text = f"{what_is_wrong(fault)}: {_where(fault)}{size_words(fault.row)}{others_words(fault)}"
    if peer.fault:
        return f"{text}; it happens on both sides."
    if not peer.batches:
        return f"{text}; {peer.label}: not audited."
    return f"{text}; {peer.label}: {covered(peer)} within rounding."


def what_is_wrong(fault: AuditFault) -> str:
    """Return the fault in half a sentence: ``the gradient of conv1.weight is wrong``."""
    row = fault.row
    if row.check == "distance":
        return f"{thing(row)} is wrong"
    if row.check == "slope":
        where = f", in parameter {row.name}" if fault.parameter else f", along {row.name}" if row.name else ""
        return f"the gradient is not the slope of the loss{where}"
    if row.check == "continuity":
        return f"{row.name or 'the state'} changed between two steps"
    if row.check == "free":
        return "the first batches drift from float64 by more than rounding explains"
    return row.detail or f"{row.check} found a fault{f' in {row.name}' if row.name else ''}"


def disagreement_words(found: Disagreement, labels: tuple[str, str]) -> str:
    """Return the sentence for references that differ."""
    reference, other = labels
    what = "the loss" if found.quantity == "loss" else f"the {found.quantity} of {found.name}"
    more = f", and so do {found.others} more" if found.others else ""
    return (
        f"{other} and {reference} do not compute the same function: in float64, at equal weights and batch, {what} "
        f"differs by {share(found.relative)} of its norm (batch 0, block {found.block}){more}."
    )


def covered(side: Audited) -> str:
    """Return what was compared: ``the loss, 34 gradients and 34 updates in 3 batches of 7 trials``."""
    losses = "the loss" if side.losses == 1 else plural(side.losses, "loss")
    gradients, updates = plural(side.gradients, "gradient"), plural(side.updates, "update")
    what = [words for words, count in ((losses, side.losses), (gradients, side.gradients), (updates, side.updates))
            if count]  # fmt: skip
    listed = " and ".join(filter(None, [", ".join(what[:-1]), what[-1] if what else "nothing"]))
    trials = plural(side.trials, "trial")
    of = trials if side.audited == side.trials else f"{side.audited} of {trials}"
    return f"{listed} in {plural(len(side.batches), 'batch')} of {of}"


def nearest_words(side: Audited) -> str:
    """Return how near the nearest row is to its bound: ``at most 3% of what rounding explains (...)``."""
    row = side.nearest
    if row is None or row.share is None:
        return "no distance recorded"
    relative = "" if row.relative is None else f": {row.relative:.2g} of its norm"
    return f"at most {share(row.share)} of what rounding explains ({thing(row).removeprefix('the ')}{relative})"


def audited_line(side: Audited) -> str:
    """Return the evidence line of one side."""
    if not side.batches:
        return f"{side.label}: not held against a float64 reference"
    if side.fault and side.fault.row.check == "distance":
        row = side.fault.row
        text = f"{side.label}: {thing(row)} is beyond rounding at batch {row.batch_index}{size_words(row)}{_own(row)}"
        return f"{text}; {plural(side.fault.trials, 'trial')} of {side.trials} with a fault"
    return f"{side.label}: {covered(side)} are off by {nearest_words(side)}{_further(side)}"


def _further(side: Audited) -> str:
    found = []
    if side.fault:
        found.append(f"{what_is_wrong(side.fault)}{size_words(side.fault.row)}")
    if side.slopes:
        checks, lenders = plural(sum(side.slopes.values()), "check"), ", ".join(side.lenders)
        made = f" (of arm {lenders}, which runs the same code)" if lenders else ""
        found.append(f"the gradient is the slope of the loss in {checks}{made}")
    if side.steps:
        found.append(f"each state enters the next batch as it was left ({plural(side.steps, 'check')})")
    return "".join(f"; {words}" for words in found)


def explained(audit: tuple[Audited, Audited]) -> str:
    """Say what explains a difference that the audit found no fault in; a full sentence."""
    precision = reduced_words(audit)
    words = f"rounding in {precision}" if precision else "rounding"
    return f"In the audited batches {words} explains every difference."


def reduced_words(audit: tuple[Audited, Audited]) -> str:
    """Return the precision that explains a difference, and whose it is: ``bfloat16 (arm low)``; empty for none."""
    coarse = reduced(audit)
    names = dict.fromkeys(side.precision.name for side in coarse if side.precision)
    return f"{' and '.join(names)} ({' and '.join(side.label for side in coarse)})" if coarse else ""


def _where(fault: AuditFault) -> str:
    lent = ", which runs the same code," if fault.row.lent else ""
    return f"in arm {', '.join(fault.arms)}{lent} at batch {fault.row.batch_index} (block {fault.block})"


def size_words(row: AuditRow) -> str:
    """Return how far off and against what; empty for a check without distances."""
    if row.check == "continuity" or (row.error is None and row.bound is None):
        return f", {row.detail}" if row.detail and row.check in ("slope", "free", "continuity") else ""
    reference = "the loss's slope" if row.check == "slope" else "float64"
    if row.error is None:
        return f", its distance from {reference} is not finite"
    off = f"{number(row.error, 2)}" if row.relative is None else f"{share(row.relative)} of its norm"
    if row.share is not None and row.share <= 1 and row.own_error and row.scale:
        return f"; its own code run in float64, where rounding is gone, is {share(row.own_error / row.scale)} off"
    if row.share is None:
        return f", {off} from {reference}, where rounding explains nothing"
    return f", {off} from {reference}, {times(row.share)} what rounding explains"


def _own(row: AuditRow) -> str:
    """Say whether the same code is wrong in float64 too: rounding shrinks with the precision, a fault does not."""
    if row.own_error is None or row.own_bound is None:
        return ""
    if row.own_error > row.own_bound:
        return "; the same code run in float64 is wrong too, so it is not the precision"
    return "; the same code run in float64 is right, so the fault is in this precision's code or settings"


def others_words(fault: AuditFault) -> str:
    """Return what else has the same fault; empty for nothing."""
    names: Sequence[str] = fault.others
    if not names:
        return ""
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"; also {', '.join(names[:MOST_NAMED])}{more}"
