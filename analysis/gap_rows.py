"""The rows of a gap report's tables as text, for the terminal and for the page alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.arm_summary import ArmSummary
from analysis.contrast import ContrastReport
from analysis.digits import NONE, TINY, interval, number, p_value, percent, signed


@dataclass(frozen=True)
class Rows:
    """A table.

    Attributes:
        columns: heads.
        left: how many of the first columns are words, set to the left; the others are numbers.
        rows: cells; a line break separates two values of one cell.
    """

    columns: tuple[str, ...]
    left: int
    rows: tuple[tuple[str, ...], ...]


def arm_rows(arms: Sequence[ArmSummary]) -> Rows:
    """Return each arm's outcomes."""
    rows = []
    for arm in arms:
        trials = f"{arm.n}" if arm.n == arm.trials else f"{arm.n} of {arm.trials}"
        numbers = (number(arm.mean), number(arm.sd, 2), number(arm.smallest), number(arm.largest))
        remark = "\n".join(filter(None, [arm.control, arm.some_blocks]))
        rows.append((arm.arm, remark, trials, *numbers))
    return Rows(("arm", "control", "trials", "mean", "sd", "smallest", "largest"), 2, tuple(rows))


def gap_rows(contrasts: Sequence[ContrastReport]) -> Rows:
    """Return each contrast's gap, in percent where that has a meaning, and below it in the outcome's unit."""
    both = any(contrast.effect.relative is not None for contrast in contrasts)
    rows = []
    for contrast in contrasts:
        effect = contrast.effect
        gaps = [percent(effect.relative), signed(effect.gap)]
        intervals = [interval(effect.relative_interval, as_percent=True), interval(effect.gap_interval)]
        shown = slice(0, 2)
        if effect.relative is None:
            shown = slice(1, 2)
        elif abs(effect.relative) < TINY:  # below such a percentage the absolute figure would add nothing but width
            shown = slice(0, 1)
        p, adjusted = p_value(effect.test.p), p_value(contrast.adjusted_p)
        if contrast.verdict.size == "EQUAL":  # decided without a test
            p = adjusted = NONE
        if contrast.control:
            adjusted = "control"
        rows.append((contrast.label, str(effect.n), "\n".join(gaps[shown]), "\n".join(intervals[shown]), p, adjusted))
    return Rows(
        ("contrast", "blocks", "gap, %\nabsolute" if both else "gap", "95% interval", "p", "Holm p"), 1, tuple(rows)
    )


def verdict_rows(contrasts: Sequence[ContrastReport]) -> Rows:
    """Return each contrast's cause, size and headline."""
    rows = []
    for contrast in contrasts:
        verdict, first = contrast.verdict, contrast.divergence.earliest
        rows.append(
            (
                contrast.label,
                ("never" if contrast.divergence.pairs else NONE) if first is None else f"batch {first}",
                cause_word(contrast),
                verdict.size,
                f"({contrast.control} control)" if contrast.control else verdict.headline,
            )
        )
    return Rows(("contrast", "losses first\ndiffer at", "cause", "size", "verdict"), 5, tuple(rows))


def cause_word(contrast: ContrastReport) -> str:
    """Return the cause; ``declared`` where it is unknown beside what the grid itself changes."""
    verdict = contrast.verdict
    perturbed = contrast.control in ("one-ulp", "permute-rows")
    return "declared" if verdict.cause == "UNKNOWN" and (verdict.declared or perturbed) else verdict.cause
