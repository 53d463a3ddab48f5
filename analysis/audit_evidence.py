"""Everything that the rows of ``audits`` say about one contrast, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ablate.design.spec import GridSpec
from analysis.audit_row import AuditRow
from analysis.audited import Audited, audited
from analysis.confounding import Mismatch, drew_otherwise
from analysis.guard_findings import Coverage, coverage
from analysis.pairing import Match, Sides
from analysis.reference_agreement import Disagreement, disagreement
from analysis.trials import Trial

Audits = Mapping[str, Sequence[AuditRow]]
"""Rows by trial id."""


@dataclass(frozen=True)
class AuditEvidence:
    """What was looked at in the trials of a contrast, reference first.

    Attributes:
        guard: what the saved-tensor guard saw.
        audit: how far each side is from float64.
        disagreement: a value whose float64 references differ between two arms that start alike; None if there is none.
        other_draws: trials that drew other numbers from an equal generator; None if there are none.
    """

    guard: tuple[Coverage, Coverage]
    audit: tuple[Audited, Audited]
    disagreement: Disagreement | None
    other_draws: Mismatch | None


def audit_evidence(sides: Sides, matches: Sequence[Match], grid: GridSpec, audits: Audits) -> AuditEvidence:
    """Gather the evidence.

    Args:
        sides: what is compared.
        matches: its matched pairs of trials.
        grid: the study.
        audits: rows by trial id.
    """
    # A trial of a factor's level may have several partners: each counts once.
    reference = list({match.reference.trial_id: match.reference for match in matches}.values())
    other = list({match.other.trial_id: match.other for match in matches}.values())
    first, second = sides.labels
    alike = _start_alike(sides, grid)
    return AuditEvidence(
        guard=(_guard(first, reference, audits), _guard(second, other, audits)),
        audit=(_audited(first, reference, grid, audits), _audited(second, other, grid, audits)),
        disagreement=disagreement(matches, audits) if alike else None,
        other_draws=drew_otherwise(matches, audits),
    )


def _start_alike(sides: Sides, grid: GridSpec) -> bool:
    """Say whether references must agree: in another precision or under a perturbation they start from other numbers."""
    if sides.contrast.arms is None:
        return False
    arms = [grid.arms[name].numerics for name in sides.contrast.arms]
    return not any(arm.perturb for arm in arms) and len({(arm.precision, arm.gradient_noise) for arm in arms}) == 1


def _guard(label: str, trials: Sequence[Trial], audits: Audits) -> Coverage:
    rows = [row for trial in trials for row in audits.get(trial.trial_id, ())]
    return coverage(label, (trial.trial_id for trial in trials), rows)


def _audited(label: str, trials: Sequence[Trial], grid: GridSpec, audits: Audits) -> Audited:
    declared = sorted({grid.arms[trial.arm].numerics.precision for trial in trials})
    return audited(label, trials, audits, declared)
