"""What the audit saw on one side of a contrast: what it covered, how near its bounds, faults, and what it missed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from analysis.audit_fault import AuditFault, first_fault
from analysis.audit_row import AuditRow
from analysis.digits import plural
from analysis.precision import PASSED, Precision, coarsest
from analysis.trials import Trial

START = 0
"""The batch that must be among the audited ones: later ones start from weights that a fault may have made."""

ENDED = ("done", "diverged")


@dataclass(frozen=True)
class Departure:
    """The first operation whose result departs, and the file that shows it alone; the texts may be empty."""

    operation: str
    source: str
    detail: str
    reproduction: str


@dataclass(frozen=True)
class Audited:
    """What the audit covered on one side of a contrast.

    Attributes:
        label: the side.
        trials: its trials that ran to their end.
        audited: those of them whose loss and gradients were held against float64 in the first batch, and passed.
        batches: audited batches, ascending.
        losses: losses compared in a batch.
        gradients: gradients compared in a batch.
        updates: updates compared in a batch.
        nearest: the row that passed with the largest share of what rounding explains; None if nothing passed.
        slopes: directions in which the gradient was found to be the slope of the loss, by the trial that was looked at.
        lenders: arms of those trials that are of none of the side's arms, but of one that runs the same code.
        steps: steps after which the state was found to enter the next batch as it was left.
        fault: what rounding does not explain; None if nothing.
        unjudged: what could not be judged, with the number of times.
        unseen: what the audit says that it could not see.
        precision: the coarsest arithmetic; None if nothing is known of it.
        departures: operations where the side first departs.
        why_not: why nothing can be concluded from the absence of faults; empty if something can.
    """

    label: str
    trials: int
    audited: int
    batches: tuple[int, ...]
    losses: int
    gradients: int
    updates: int
    nearest: AuditRow | None
    slopes: Mapping[str, int]
    lenders: tuple[str, ...]
    steps: int
    fault: AuditFault | None
    unjudged: tuple[str, ...]
    unseen: tuple[str, ...]
    precision: Precision | None
    departures: tuple[Departure, ...]
    why_not: str

    @property
    def passed(self) -> bool:
        """Whether every trial's first batch was held against float64, and nothing was beyond rounding."""
        return not self.fault and not self.why_not


def audited(
    label: str, trials: Sequence[Trial], audits: Mapping[str, Sequence[AuditRow]], declared: Sequence[str] = ()
) -> Audited:
    """Sum up what the audit saw in the trials of one side.

    Args:
        label: the side's name.
        trials: its matched trials.
        audits: rows by trial id.
        declared: precisions that the side's arms ask for.

    Returns:
        Audited: nothing compared is not the same as nothing found, and ``why_not`` says so.
    """
    own = {trial.trial_id: trial for trial in trials}
    rows = [row for trial_id in own for row in audits.get(trial_id, ())]
    distances = [row for row in rows if row.check == "distance"]
    passed = [row for row in distances if row.verdict in PASSED]
    ended = [trial_id for trial_id, trial in own.items() if trial.status in ENDED]
    complete = [trial_id for trial_id in ended if _complete(own[trial_id], audits.get(trial_id, ()))]
    clean = [row for row in rows if row.verdict == "clean"]
    unseen = tuple(dict.fromkeys(row.detail or row.near for row in rows if row.check == "scope"))
    unjudged = _unjudged(rows)
    return Audited(
        label=label,
        trials=len(ended),
        audited=len(complete),
        batches=tuple(sorted({row.batch_index for row in distances})),
        losses=_values(distances, "loss"),
        gradients=_values(distances, "gradient"),
        updates=_values(distances, "update"),
        nearest=max(passed, key=_share, default=None),
        slopes=_slopes(clean),
        lenders=tuple(sorted({row.arm for row in clean if row.lent} - {trial.arm for trial in trials})),
        steps=sum(row.check == "continuity" for row in clean),
        fault=first_fault(rows),
        unjudged=unjudged,
        unseen=tuple(words for words in unseen if words),
        precision=coarsest(rows, declared),
        departures=_departures(rows),
        why_not=_why_not(label, len(ended), len(complete), distances, unseen),
    )


def _share(row: AuditRow) -> float:
    share = row.share
    return -1.0 if share is None else share


def _complete(trial: Trial, rows: Iterable[AuditRow]) -> bool:
    """Say whether loss and gradients of a trial's first batch were all judged and within rounding.

    A trial that ends at that batch, because its loss is not finite, has no gradients.
    """
    first = [row for row in rows if row.check == "distance" and row.batch_index == START]
    compared = {row.quantity for row in first}
    needed = {"loss"} if trial.status == "diverged" and trial.batches == START + 1 else {"loss", "gradient"}
    return needed <= compared and all(row.verdict in PASSED for row in first)


def _why_not(label: str, ended: int, complete: int, distances: Sequence[AuditRow], unseen: Sequence[str]) -> str:
    if not ended:
        return f"no trial of {label} ran to its end"
    if complete == ended:
        return ""
    if not distances:
        because = f": {'; '.join(unseen)}" if any(unseen) else ""
        return f"{label} was not held against a float64 reference{because}"
    first = [row for row in distances if row.batch_index == START]
    if not first:
        return f"the audit of {label} does not include batch {START}"
    vague = [row for row in first if row.verdict not in (*PASSED, "bug")]
    if vague:
        return f"the audit of {label} could not judge {_counted(vague)} at batch {START}"
    lacking = f"{ended - complete} of {plural(ended, 'trial')} of {label}"
    return f"{lacking} {'was' if ended - complete == 1 else 'were'} not held against float64 at batch {START}"


def _slopes(clean: Iterable[AuditRow]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for row in clean:
        if row.check == "slope":  # one for each player
            counts[row.lent or row.trial_id] += row.count
    return dict(counts)


def _unjudged(rows: Iterable[AuditRow]) -> tuple[str, ...]:
    """Return what could not be judged, by reason."""
    by_reason: dict[str, list[AuditRow]] = {}
    for row in rows:
        if row.verdict in ("unjudged", "kink"):
            reason = row.detail or ("a kink along this direction" if row.verdict == "kink" else "no reason recorded")
            by_reason.setdefault(reason, []).append(row)
    return tuple(f"{_counted(found)} ({reason})" for reason, found in by_reason.items())


def _counted(rows: Sequence[AuditRow]) -> str:
    """Return ``the gradient of a.weight and 3 more``."""
    things = Counter(thing(row) for row in rows)
    first = next(iter(things))
    return f"{first} and {len(things) - 1} more" if len(things) > 1 else first


def thing(row: AuditRow, several_losses: bool = False) -> str:
    """Return what a row is about: ``the gradient of conv1.weight``."""
    if row.check == "slope":
        return "the slope of the loss"
    if row.check == "free":
        return f"the loss of batch {row.batch_index} of a free run"
    if row.quantity == "loss" and not several_losses:
        return "the loss"
    what = row.quantity or row.check
    return f"the {what} of {row.name}" if row.name else f"the {what}"


def _values(rows: Iterable[AuditRow], quantity: str) -> int:
    """Return how many values of a quantity one batch has; a row may stand for many, of which it is the worst."""
    counts: Counter[tuple[str, int]] = Counter()
    for row in rows:
        if row.quantity == quantity:
            counts[row.trial_id, row.batch_index] += row.count
    return max(counts.values(), default=0)


def _departures(rows: Iterable[AuditRow]) -> tuple[Departure, ...]:
    found = [row for row in rows if row.check == "departure" and row.verdict == "found"]
    return tuple(dict.fromkeys(Departure(row.near, row.source, row.detail, row.role) for row in found))
