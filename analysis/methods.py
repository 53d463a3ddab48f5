"""The methods paragraph, written from what was run and not from what is usually run."""

from __future__ import annotations

from collections.abc import Sequence

from ablate.design.cross import trials as planned_trials
from ablate.design.spec import GridSpec, level_text
from analysis.bca import FEWEST, RESAMPLES
from analysis.controls import arm_control
from analysis.digits import plural
from analysis.gap_report import GapReport


def methods(grid: GridSpec, report: GapReport, seed: int = 0) -> list[str]:
    """Return the paragraphs.

    Args:
        grid: the study.
        report: its analysis.
        seed: seed of the analysis's resampling.
    """
    return [
        _design(grid, report),
        _pairing(report),
        _statistics(grid, report, seed),
        f"{_watched(grid, report)} {_audited(report)}",
    ]


def _design(grid: GridSpec, report: GapReport) -> str:
    trials = planned_trials(grid)
    plain = [name for name, arm in grid.arms.items() if not arm.control]
    begun = f"imported from {grid.imported.kind}, {grid.imported.source}" if grid.imported else "planned"
    said = f"{plural(len(trials), 'trial')} of {plural(grid.batches, 'batch')} each were {begun}: "
    said += f"{plural(len(plain), 'arm')} ({', '.join(plain)}) over {plural(len(grid.blocks), 'block')}"
    said += f" (seeds {_seeds(grid.blocks)})"
    if grid.factors:
        crossed = "; ".join(f"{name}: {', '.join(map(level_text, levels))}" for name, levels in grid.factors.items())
        said += f", with the factors {crossed}"
    controls = [f"{name} ({arm_control(arm)}, of {arm.repeat})" for name, arm in grid.arms.items() if arm.control]
    said += f". Controls: {', '.join(controls)}." if controls else ". There is no control arm."
    known = sum(arm.n for arm in report.arms)
    return f"{said} {plural(known, 'trial')} gave an outcome: the {report.outcome}."


def _pairing(report: GapReport) -> str:
    streams = [contrast.streams for contrast in report.contrasts]
    compared = sorted({name for one in streams for name in one.compared})
    differing = sorted({mismatch.stream for one in streams for mismatch in one.mismatches})
    if not compared:
        return (
            "Trials of a block are compared in pairs. Initial weights, data and random draws were not recorded: that "
            "the pairs started equal is not shown."
        )
    said = f"Trials of a block are compared in pairs. Compared by hashes recorded in training: {', '.join(compared)}"
    return f"{said}; {'these differ: ' + ', '.join(differing) if differing else 'all are equal on both sides'}."


def _statistics(grid: GridSpec, report: GapReport, seed: int) -> str:
    own = [contrast for contrast in report.contrasts if contrast.control is None]
    averaged = "; the factors' cells are averaged within a block first" if grid.factors else ""
    said = f"A gap is the mean over blocks of other minus reference{averaged}. "
    said += f"Intervals are 95 % BCa bootstrap over blocks ({RESAMPLES:,} resamples, seed {seed}; none below {FEWEST} "
    said += "blocks). p is from a two-sided sign-flip test of the paired differences, "
    said += f"Holm-adjusted over the study's {plural(len(own), 'contrast')}; controls stand outside that family. "
    if grid.margin is None:
        return said + "No margin was fixed, so no equivalence is claimed."
    return f"{said}Equivalence: two one-sided t tests (TOST) within {grid.margin}, fixed before the launch."


def _watched(grid: GridSpec, report: GapReport) -> str:
    checks = sum(side.tensors for contrast in report.contrasts for side in contrast.guard)
    if not checks:
        return "No saved tensor was watched."
    first = f"the first {plural(grid.guard.first, 'batch')}" if grid.guard.first else ""
    every = f"every {grid.guard.every}th" if grid.guard.every else ""
    return (
        f"On {' and '.join(filter(None, (first, every)))} of a trial, every tensor that autograd saved in the forward "
        f"pass was hashed, and hashed again when the backward pass used it ({checks:,} checks on the contrasts' sides)."
    )


def _audited(report: GapReport) -> str:
    sides = [side for contrast in report.contrasts for side in contrast.audit]
    batches = sorted({batch for side in sides for batch in side.batches})
    if not batches:
        return "Gradients were not compared with a reference."
    listed = " and ".join(filter(None, [", ".join(map(str, batches[:-1])), str(batches[-1])]))
    which = f"Batches {listed} were" if len(batches) > 1 else f"Batch {listed} was"
    return (
        f"{which} stepped once more in float64 from the trial's own state; the Euclidean distances of loss, gradients "
        "and updates were held against a bound from unit roundoff and length of the longest sum, and beyond it against "
        "simulated rounding of every operation. In one block the gradient was compared with the slope of the loss by "
        "central differences."
    )


def _seeds(blocks: Sequence[int]) -> str:
    first, last = blocks[0], blocks[-1]
    together = list(blocks) == list(range(first, last + 1)) and len(blocks) > 2
    return f"{first} to {last}" if together else ", ".join(map(str, blocks))
