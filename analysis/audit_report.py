"""What ``ablate audit`` says: each arm against float64, then each contrast's cause. Nothing is said of outcomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ablate.design.spec import Contrast
from ablate.record.reader import Run
from analysis.as_json import as_json
from analysis.audit_row import AuditRow
from analysis.audit_words import disagreement_words, others_words, size_words, what_is_wrong
from analysis.audited import Audited, audited
from analysis.contrast import ContrastReport
from analysis.controls import all_contrasts
from analysis.digits import plural
from analysis.gap import gap
from analysis.gap_rows import cause_word
from analysis.guard_findings import coverage
from analysis.guard_words import overwritten
from analysis.headline import Cause, reduced
from analysis.lent_slopes import with_lent_slopes
from analysis.precision import PASSED
from analysis.run_data import read_audits, read_trials
from analysis.trials import Trial

CAUSES: tuple[Cause, ...] = ("BUG", "CONFOUNDED", "UNKNOWN", "REDUCED PRECISION", "ROUNDING", "BITWISE EQUAL")
"""Worst first."""

FAULTS: tuple[Cause, ...] = ("BUG", "CONFOUNDED")
"""Causes that exit with code 5."""

NO_AUDIT_SEES = (
    "No audit sees a fault that is in the loss's definition and in every arm: it asks whether the arithmetic is right, "
    "not whether the loss is the one that was meant."
)


@dataclass(frozen=True)
class ArmAudit:
    """One arm, under one combination of levels, against float64.

    Attributes:
        name: arm and levels.
        cause: what its distance from float64 comes from.
        precision: the coarsest arithmetic seen.
        loss: the loss's distance as a share of its norm; None where it was not compared.
        gradient: the same of the gradient that uses the largest share of its bound, and whose it is.
        update: the same of the update.
        used: the largest share of what rounding explains, of anything that passed.
        slope: outcome of the slope check.
        faults: what is wrong, a sentence each.
        unseen: what the audit could not see or judge.
    """

    name: str
    cause: Cause
    precision: str
    loss: float | None
    gradient: tuple[float, str] | None
    update: tuple[float, str] | None
    used: float | None
    slope: str
    faults: tuple[str, ...]
    unseen: tuple[str, ...]


@dataclass(frozen=True)
class Comparison:
    """Something compared with something else: two sides of a contrast, or this machine with a file.

    Attributes:
        label: what is compared.
        cause: of the difference; ``declared`` where the grid itself makes it.
        words: what that rests on.
    """

    label: str
    cause: str
    words: str


@dataclass(frozen=True)
class AuditReport:
    """The audit of a study.

    Attributes:
        study: its name.
        batches: how many batches were audited.
        cause: the worst of all.
        arms: in the grid's order.
        contrasts: the study's first, then the controls'.
        against: arms here against the same arms of a file; empty without one.
        made_on: the machine and versions that the file is from; empty without one.
        not_seen: what no audit can see.
    """

    study: str
    batches: int
    cause: Cause
    arms: tuple[ArmAudit, ...]
    contrasts: tuple[Comparison, ...]
    against: tuple[Comparison, ...]
    made_on: str
    not_seen: str

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain dicts, lists, text and finite numbers."""
        return as_json(self)


Find = Callable[[Contrast], str]
"""Looks for something in the inputs and values of a contrast's two arms; returns it in words, or nothing."""


def _nothing(_: Contrast) -> str:
    return ""


def audit_report(
    run: Run,
    differs: Find = _nothing,
    unequal: Find = _nothing,
    against: Sequence[Comparison] = (),
    made_on: str = "",
) -> AuditReport:
    """Read the audit of a run, of the trials in its first block.

    Args:
        run: the store.
        differs: finds the first element of weights or data that differs; asked of a contrast that is CONFOUNDED.
        unequal: finds a value whose bits differ; asked of a contrast whose losses are all equal.
        against: what a comparison with a file found.
        made_on: where the file is from.
    """
    trials, _ = read_trials(run)
    audits = with_lent_slopes(read_audits(run), trials, run.grid)
    first = min(run.grid.blocks)
    arms = tuple(
        _arm(", ".join([trial.arm, *(f"{name} {level}" for name, level in trial.factors)]), trial, audits)
        for trial in sorted(trials, key=lambda trial: list(run.grid.arms).index(trial.arm))
        if trial.block == first
    )
    contrasts = tuple(
        _contrast(asked, found, differs, unequal)
        for asked, found in zip(all_contrasts(run.grid), gap(run).contrasts, strict=True)
    )
    causes = [one.cause for one in (*arms, *contrasts, *against)]
    return AuditReport(
        study=run.grid.study,
        batches=run.grid.batches,
        cause=next(cause for cause in CAUSES if cause in causes),
        arms=arms,
        contrasts=contrasts,
        against=tuple(against),
        made_on=made_on,
        not_seen=NO_AUDIT_SEES,
    )


def _arm(name: str, trial: Trial, audits: Mapping[str, Sequence[AuditRow]]) -> ArmAudit:
    mine = audits.get(trial.trial_id, ())
    side = audited(name, [trial], audits)
    guard = coverage(name, [trial.trial_id], mine)
    faults = tuple(filter(None, [overwritten(guard.fault) if guard.fault else "", _beyond_rounding(side)]))
    passed = [row for row in mine if row.check == "distance" and row.verdict in PASSED]
    losses = [row.relative for row in passed if row.quantity == "loss" and row.relative is not None]
    slopes = [row for row in mine if row.check == "slope"]
    worst_slope = next((row.verdict for row in slopes if row.verdict != "clean"), "clean" if slopes else "")
    return ArmAudit(
        name=name,
        cause=_cause(faults, side),
        precision=side.precision.name if side.precision else "",
        loss=max(losses, default=None),
        gradient=_worst(passed, "gradient"),
        update=_worst(passed, "update"),
        used=side.nearest.share if side.nearest else None,
        slope=worst_slope,
        faults=faults,
        unseen=(*side.unseen, *side.unjudged),
    )


def _cause(faults: Sequence[str], side: Audited) -> Cause:
    if faults:
        return "BUG"
    if not side.passed:
        return "UNKNOWN"
    return "REDUCED PRECISION" if side.precision and side.precision.reduced else "ROUNDING"


def _worst(rows: Sequence[AuditRow], quantity: str) -> tuple[float, str] | None:
    """Return the relative distance and the name of what comes nearest to its bound."""
    known = [row for row in rows if row.quantity == quantity and row.share is not None and row.relative is not None]
    nearest = max(known, key=lambda row: row.share or 0.0, default=None)
    return (nearest.relative or 0.0, nearest.name) if nearest else None


def _beyond_rounding(side: Audited) -> str:
    fault = side.fault
    if fault is None:
        return ""
    lent = f" (found in arm {fault.row.arm}, which runs the same code)" if fault.row.lent else ""
    text = f"{what_is_wrong(fault)}{lent} at batch {fault.row.batch_index}{size_words(fault.row)}{others_words(fault)}"
    for one in side.departures:
        text += f"; first departs in {one.operation}{f' at {one.source}' if one.source else ''}"
        text += f"; to reproduce: python {one.reproduction}" if one.reproduction else ""
    return text


def _contrast(asked: Contrast, found: ContrastReport, differs: Find, unequal: Find) -> Comparison:
    cause = found.verdict.cause
    if cause == "BITWISE EQUAL" and (name := unequal(asked)):
        words = f"every loss is equal, bit for bit, but {name} is not"
        if reasons := "; ".join(side.why_not for side in found.audit if side.why_not):
            return Comparison(found.label, "UNKNOWN", f"{words}; {reasons}")
        explained = "REDUCED PRECISION" if reduced(found.audit) else "ROUNDING"
        return Comparison(found.label, explained, f"{words}; rounding explains every distance from float64")
    words = _why(found)
    if cause == "CONFOUNDED" and (element := differs(asked)):
        words += f": {element}"
    return Comparison(found.label, cause_word(found), words)


def _why(contrast: ContrastReport) -> str:
    cause = contrast.verdict.cause
    if cause == "CONFOUNDED":
        return "they differ before arithmetic could, in " + "; ".join(map(str, contrast.streams.mismatches))
    if cause == "BUG":
        sides = [*contrast.guard, *contrast.audit]
        found = [f"{label} has a fault" for label in dict.fromkeys(side.label for side in sides if side.fault)]
        if contrast.disagreement:
            found.append(disagreement_words(contrast.disagreement, (contrast.reference, contrast.other)).rstrip("."))
        return "; ".join(found)
    if cause == "BITWISE EQUAL":
        return f"every loss is equal, bit for bit ({plural(contrast.divergence.batches, 'batch')})"
    if cause == "UNKNOWN":
        return contrast.verdict.unknown
    first = contrast.divergence.earliest
    parted = f"losses first differ at batch {first}" if first is not None else "no loss differs in the audited batches"
    return f"{parted}; rounding explains every distance from float64"
