"""What ``ablate audit`` says: each arm against float64, then each contrast's cause. Nothing is said of outcomes."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ablate.record.reader import Run
from analysis.audit_evidence import Audits
from analysis.audit_row import AuditRow
from analysis.audit_words import disagreement_words, what_is_wrong
from analysis.audited import Audited, audited, thing
from analysis.contrast import ContrastReport
from analysis.controls import all_contrasts
from analysis.digits import number, plural, share
from analysis.gap import gap
from analysis.guard_findings import Coverage, coverage
from analysis.headline import Cause
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
class ContrastAudit:
    """A contrast's cause and what it rests on, in words."""

    label: str
    cause: Cause
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
        not_seen: what no audit can see.
    """

    study: str
    batches: int
    cause: Cause
    arms: tuple[ArmAudit, ...]
    contrasts: tuple[ContrastAudit, ...]
    not_seen: str

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain dicts, lists, text and finite numbers."""
        plain: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(self), allow_nan=False))
        return plain


def audit_report(run: Run, differences: Mapping[str, str] | None = None) -> AuditReport:
    """Read the audit of a run, of the trials in its first block.

    Args:
        run: the store.
        differences: contrast's label -> first element of weights or data that differs, where that is known.
    """
    trials, _ = read_trials(run)
    rows = read_audits(run)
    audits: Audits = {trial.trial_id: [row for row in rows if row.trial_id == trial.trial_id] for trial in trials}
    first = min(run.grid.blocks)
    arms = tuple(
        _arm(", ".join([trial.arm, *(f"{name} {level}" for name, level in trial.factors)]), trial, audits)
        for trial in sorted(trials, key=lambda trial: list(run.grid.arms).index(trial.arm))
        if trial.block == first
    )
    contrasts = tuple(
        _contrast(found, [trial for trial in trials if trial.arm in (asked.arms or ())], audits, differences or {})
        for asked, found in zip(all_contrasts(run.grid), gap(run).contrasts, strict=True)
    )
    causes = [one.cause for one in (*arms, *contrasts)]
    return AuditReport(
        study=run.grid.study,
        batches=run.grid.batches,
        cause=min(causes, key=CAUSES.index),
        arms=arms,
        contrasts=contrasts,
        not_seen=NO_AUDIT_SEES,
    )


def _arm(name: str, trial: Trial, audits: Mapping[str, Sequence[AuditRow]]) -> ArmAudit:
    mine = audits[trial.trial_id]
    side = audited(name, [trial], audits)
    guard = coverage(name, [trial.trial_id], mine)
    faults = tuple(filter(None, [_overwritten(guard), _beyond_rounding(side)]))
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


def _overwritten(side: Coverage) -> str:
    fault = side.fault
    if fault is None:
        return ""
    where = f", saved at {fault.source}" if fault.source else ""
    return (
        f"this tensor was overwritten between forward and backward: {fault.role or 'a tensor'}, shape {fault.shape}"
        f"{where}, at batch {fault.batch} ({plural(fault.per_batch, 'tensor')} a batch)"
    )


def _beyond_rounding(side: Audited) -> str:
    fault = side.fault
    if fault is None:
        return ""
    row = fault.row
    text = f"{what_is_wrong(fault)} at batch {row.batch_index}"
    if row.relative is not None and row.share:
        text += f": {share(row.relative)} of its norm off, {number(row.share, 2)} times what rounding explains"
    if fault.others:
        text += f"; also {', '.join(fault.others[:3])}"
        text += f" and {len(fault.others) - 3} more" if len(fault.others) > 3 else ""
    for one in side.departures:
        text += f"; first departs in {one.operation}{f' at {one.source}' if one.source else ''}"
        text += f"; to reproduce: python {one.reproduction}" if one.reproduction else ""
    return text


def _contrast(
    contrast: ContrastReport, trials: Sequence[Trial], audits: Audits, differences: Mapping[str, str]
) -> ContrastAudit:
    if contrast.verdict.cause == "BITWISE EQUAL" and (name := _differs(trials, audits)):
        words = f"every loss is equal, bit for bit, but {name} is not; rounding explains every distance from float64"
        return ContrastAudit(contrast.label, "ROUNDING", words)
    words = _why(contrast)
    if contrast.verdict.cause == "CONFOUNDED" and contrast.label in differences:
        words += f": {differences[contrast.label]}"
    return ContrastAudit(contrast.label, contrast.verdict.cause, words)


SAME_DISTANCE = 2.0**-40
"""Of a value's norm. The float64 references of two arms may round differently, by 2**-53 and little more."""


def _differs(trials: Sequence[Trial], audits: Audits) -> str:
    """Return a gradient or update that differs between trials of equal levels although no loss does."""
    seen: dict[tuple[object, ...], float] = {}
    for trial in trials:
        for row in audits[trial.trial_id]:
            if row.check == "distance" and row.quantity != "loss" and row.error is not None:
                key = (trial.factors, row.batch_index, row.quantity, row.name)
                if abs(seen.setdefault(key, row.error) - row.error) > SAME_DISTANCE * (row.scale or 0.0):
                    return thing(row)
    return ""


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
        return "; ".join(side.why_not for side in contrast.audit if side.why_not) or "not audited"
    first = contrast.divergence.earliest
    parted = f"losses first differ at batch {first}" if first is not None else "no loss differs in the audited batches"
    return f"{parted}; rounding explains every distance from float64"
