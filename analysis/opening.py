"""What every account of a run opens with: the worst contrast's verdict, then half a line for each other contrast."""

from __future__ import annotations

from analysis.contrast import ContrastReport
from analysis.gap_report import GapReport
from analysis.headline import WORST_FIRST


def opening(report: GapReport) -> list[str]:
    """Return sentences that each begin with a headline and a colon, the worst first; controls are left to the tables.

    A store that has lost batches comes before them all: no verdict can rest on it.

    Args:
        report: of the run.
    """
    others = [one for one in report.contrasts if one.label != report.worst and one.control is None]
    short = [f"{one.verdict.headline}: {one.label}: {one.verdict.summary}" for one in sorted(others, key=badness)]
    return [*filter(None, [report.damage]), report.headline, *short]


def badness(contrast: ContrastReport) -> int:
    """Return where a contrast's headline stands from the worst, 0."""
    return WORST_FIRST.index(contrast.verdict.headline)
