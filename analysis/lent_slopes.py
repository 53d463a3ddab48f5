"""Slope checks that one arm's audit made for all arms that run its code: they count for each of these.

In float64 such arms compute one function (``ablate.design.slope_checker``), so a wrong gradient is in all of them, and
a right one too, as far as each was held against float64 itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ablate.design.slope_checker import code_key
from ablate.design.spec import GridSpec
from analysis.audit_row import AuditRow
from analysis.audited import START
from analysis.trials import Trial

SLOPE, DEPARTURE = "slope", "departure"


def with_lent_slopes(
    audits: Mapping[str, Sequence[AuditRow]], trials: Sequence[Trial], grid: GridSpec
) -> dict[str, list[AuditRow]]:
    """Give the rows of a slope check to the first audited trial of every arm with that code that made none.

    A lent row keeps the arm and block that it was found in. With a wrong slope goes the file that shows it.

    Args:
        audits: rows by trial id.
        trials: every planned trial.
        grid: the study.

    Returns:
        dict: all rows by trial id, the lent ones last.
    """
    found = {trial_id: list(rows) for trial_id, rows in audits.items()}
    firsts = [one for one in trials if one.block == min(grid.arms[one.arm].blocks) and one.trial_id in audits]
    keys = {one.trial_id: code_key(one.arm, dict(one.factors), grid) for one in firsts}
    made: dict[str, list[AuditRow]] = {}
    for one in firsts:
        rows = audits[one.trial_id]
        if _of(rows, SLOPE):
            made.setdefault(keys[one.trial_id], _worth_lending(rows))
    for one in firsts:
        rows = audits[one.trial_id]
        audited = any(row.check == "distance" and row.batch_index == START for row in rows)
        if audited and not _of(rows, SLOPE):
            own = bool(_of(rows, DEPARTURE))
            lent = [row for row in made.get(keys[one.trial_id], ()) if row.check == SLOPE or not own]
            found[one.trial_id] += [replace(row, trial_id=one.trial_id, lent=row.trial_id) for row in lent]
    return found


def _worth_lending(rows: Sequence[AuditRow]) -> list[AuditRow]:
    slopes = _of(rows, SLOPE)
    wrong = any(row.verdict == "bug" for row in slopes)
    elsewhere = any(row.verdict == "bug" and row.check == "distance" for row in rows)  # then the departure is of that
    return slopes + (_of(rows, DEPARTURE) if wrong and not elsewhere else [])


def _of(rows: Sequence[AuditRow], check: str) -> list[AuditRow]:
    return [row for row in rows if row.check == check]
