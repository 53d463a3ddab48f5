"""What ``ablate gap`` says, as frozen values: the table prints them and ``--json`` writes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from analysis.arm_summary import ArmSummary
from analysis.as_json import as_json
from analysis.contrast import ContrastReport
from analysis.dose_response import DoseResponse
from analysis.kinds import KindComparison


@dataclass(frozen=True)
class DroppedTrial:
    """A trial that some contrasts had to leave out.

    Attributes:
        trial_id: its id.
        trial: arm, factors and block in words.
        reason: why.
        contrasts: labels of those contrasts.
    """

    trial_id: str
    trial: str
    reason: str
    contrasts: tuple[str, ...]


@dataclass(frozen=True)
class GapReport:
    """Everything ``ablate gap`` says about a run.

    Attributes:
        study: its name.
        question: what it asks.
        outcome: what is compared, in words.
        margin: the equivalence margin in words; None without one.
        run: how the trials ended, how long they took, where, and in which store; in words.
        headline: sentence of the worst contrast, or why there is none.
        worst: label of that contrast; None without one.
        arms: in the grid's order.
        contrasts: the study's first, then the controls'.
        dropped: trials left out, with reasons.
        notes: what a reader must know to read the numbers right.
        damage: which recorded batches the store has lost; empty if none.
        dose_response: how the outcome changes with noise in the gradients; None for a study of something else.
        kinds: kinds of machines compared over their machines; empty unless arms carry ``kind`` and ``machine``.
    """

    study: str
    question: str
    outcome: str
    margin: str | None
    run: str
    headline: str
    worst: str | None
    arms: tuple[ArmSummary, ...]
    contrasts: tuple[ContrastReport, ...]
    dropped: tuple[DroppedTrial, ...]
    notes: tuple[str, ...]
    damage: str = ""
    dose_response: DoseResponse | None = None
    kinds: tuple[KindComparison, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain dicts, lists, text and finite numbers, ready for ``json.dumps``."""
        return as_json(self)
