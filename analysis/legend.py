"""The words of a gap report that a newcomer cannot know, those that occur in it, a line each."""

from __future__ import annotations

from analysis.digits import NONE, plural
from analysis.gap_report import GapReport
from analysis.gap_rows import gap_rows, verdict_rows

SIZES = {
    "DIFFERENT": "Holm p below 0.05",
    "EQUIVALENT": "inside the margin",
    "DIFFERENT BUT NEGLIGIBLE": "both of these",
    "UNDECIDED": "neither shown",
    "EQUAL": "the same losses bit by bit",
}
CAUSES = {
    "CONFOUNDED": "the sides do not start equal",
    "BUG": "a tensor that backward needs was overwritten, or a value is farther from float64 than rounding explains",
    "REDUCED PRECISION": "rounding explains every audited difference, in a precision below the other's or float32",
    "ROUNDING": "rounding explains every audited difference",
    "UNKNOWN": "not determined",
    "declared": "what the grid itself changes: a perturbation, noise, a factor's level",
}


def legend(report: GapReport) -> list[tuple[str, str]]:
    """Return words and meanings."""
    if not report.contrasts:
        return []
    family = sum(contrast.control is None for contrast in report.contrasts)
    controls = {contrast.control for contrast in report.contrasts}
    verdicts = verdict_rows(report.contrasts).rows
    lines = [
        ("block", "one seed: every arm starts from the same weights and sees the same data"),
        (
            "gap",
            "mean over blocks of the difference in outcome; [low, high]: its 95% interval (BCa bootstrap over blocks)",
        ),
        (
            "p",
            "two-sided sign-flip test of the blocks' differences; Holm p: adjusted for "
            f"{plural(family, 'contrast')}{', controls apart' if controls - {None} else ''}",
        ),
    ]
    if any("TOST" in contrast.verdict.sentence for contrast in report.contrasts):
        lines.append(
            ("TOST", "two one-sided t tests: does the gap lie inside the margin, the largest that is negligible?")
        )
    if any(NONE in row[3:] for row in gap_rows(report.contrasts).rows):
        lines.append((NONE, "none: an interval needs 3 blocks, and equal bits need no test"))
    if "A/A" in controls:
        lines.append(("A/A", "the same arm once more, which must come out equal bit by bit"))
    if "one-ulp" in controls:
        lines.append(("one ulp", "one rounding step in every initial weight: how far rounding alone takes an outcome"))
    if "permute-rows" in controls:
        lines.append(("permute-rows", "the same samples of every batch in another order, so sums round differently"))
    if any(side.batches for contrast in report.contrasts for side in contrast.guard):
        lines.append(("watched", "tensors saved for backward are hashed when saved and when used, on some batches"))
    if any(side.batches for contrast in report.contrasts for side in contrast.audit):
        lines.append(
            ("float64", "the first batches stepped once more in float64; distances are shares of that result's norm")
        )
    lines.append(("size", _known(SIZES, {row[3] for row in verdicts})))
    lines.append(("cause", _known(CAUSES, {row[2] for row in verdicts})))
    return [line for line in lines if line[1]]


def _known(meanings: dict[str, str], present: set[str]) -> str:
    return "; ".join(f"{word}: {meaning}" for word, meaning in meanings.items() if word in present)
