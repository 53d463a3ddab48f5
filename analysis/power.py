"""What the contrasts of a planned study could find, by the spread of the same contrasts in a past run."""

from __future__ import annotations

import numpy as np

from ablate.design.forecast import ContrastPower
from ablate.design.plan import ContrastPlan, Plan
from ablate.design.spec import Contrast, GridSpec
from ablate.record.reader import Run
from analysis import blocks_needed
from analysis.pairing import Sides, pair
from analysis.run_data import read_outcomes, read_trials
from analysis.scale import constant
from analysis.smallest_gap import smallest_gap, spread_interval


def power(run: Run, grid: GridSpec, plan: Plan) -> tuple[ContrastPower, ...]:
    """Return the power of every contrast of the plan's family.

    Args:
        run: a past run.
        grid: the planned study.
        plan: its plan.

    Returns:
        tuple[ContrastPower, ...]: with a note where the run cannot tell.

    Raises:
        BadInput: the run recorded no such outcome as its own grid names.
    """
    trials, recorded = read_trials(run)
    outcomes = read_outcomes(run, trials, recorded)
    family = sum(contrast.in_family for contrast in plan.contrasts)
    found = []
    for contrast, planned in zip(grid.contrasts, plan.contrasts, strict=True):
        if not planned.in_family:
            continue
        lacking = _lacking(contrast, run.grid)
        if lacking:
            found.append(_unknown(planned, f"the run has no {lacking}"))
            continue
        pairs = pair(trials, outcomes, Sides.of(contrast, run.grid)).pairs
        reference, other = (np.array([getattr(one, side) for one in pairs]) for side in ("reference", "other"))
        gap = other - reference
        if len(pairs) < 2:
            words = f"the run has {len(pairs)} block{'s' if len(pairs) != 1 else ''} of it; a spread needs 2"
            found.append(_unknown(planned, words, len(pairs)))
            continue
        if constant(gap):
            found.append(_unknown(planned, "the run has no spread to plan with: every block has one gap", len(pairs)))
            continue
        sd = float(np.std(gap, ddof=1))
        smallest = smallest_gap(sd, planned.pairs, family)
        mean = float(np.mean(reference))
        needed = blocks_needed.for_equivalence(reference, other, grid.margin) if grid.margin else None
        found.append(
            ContrastPower(
                label=planned.label,
                blocks=planned.pairs,
                seen_blocks=len(pairs),
                sd=sd,
                sd_interval=spread_interval(sd, len(pairs)),
                smallest_gap=smallest,
                smallest_gap_percent=100 * smallest / mean if smallest is not None and mean > 0 else None,
                margin_blocks=needed,
                note=_note(planned, smallest, {one.cells for one in pairs}),
            )
        )
    return tuple(found)


def differences(run: GridSpec, grid: GridSpec) -> tuple[str, ...]:
    """Say in what a past run's outcome differs from the plan's, so that its spread may not be the plan's."""
    changed = [
        f"{name} {before} there, {after} here"
        for name, before, after in (
            ("trainable", run.trainable, grid.trainable),
            ("batches", run.batches, grid.batches),
            ("outcome", _outcome(run), _outcome(grid)),
        )
        if before != after
    ]
    changed += [
        f"setting {name} differs"
        for name in {**run.settings, **grid.settings}
        if run.settings.get(name) != grid.settings.get(name)
    ]
    return (f"the past run is not the same: {'; '.join(changed)}",) if changed else ()


def _outcome(grid: GridSpec) -> str:
    return grid.outcome.evaluate or f"{grid.outcome.metric} over the last {grid.outcome.last} batches"


def _lacking(contrast: Contrast, grid: GridSpec) -> str:
    names = [f"arm {name}" for name in contrast.arms or () if name not in grid.arms]
    if contrast.factor is not None and contrast.factor not in grid.factors:
        names.append(f"factor {contrast.factor}")
    return " and no ".join([*names, *(f"factor {name}" for name in contrast.where if name not in grid.factors)])


def _unknown(planned: ContrastPlan, note: str, seen: int = 0) -> ContrastPower:
    return ContrastPower(label=planned.label, blocks=planned.pairs, seen_blocks=seen, note=note)


def _note(planned: ContrastPlan, smallest: float | None, cells: set[int]) -> str:
    if smallest is None:
        return f"{planned.pairs} blocks find no gap, however large: their smallest p is not below the level"
    if cells != {planned.cells}:
        there = "-".join(str(count) for count in sorted({min(cells), max(cells)}))
        return f"a block averages {there} cells there, {planned.cells} here"
    return ""
