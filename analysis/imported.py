"""What must be said of a study that ablate did not run: nothing was hashed, nothing was watched, nothing was fixed."""

from __future__ import annotations

from ablate.design.spec import GridSpec
from analysis.headline import Cause

NOT_RECORDED = "imported: initial weights, data and draws were not recorded"


def imported_words(grid: GridSpec, cause: Cause) -> str:
    """Return what a headline ends with; empty for a study that ablate ran.

    Args:
        grid: the study.
        cause: cause of the contrast that the headline is about.
    """
    if grid.imported is None:
        return ""
    unknown = " Nothing was audited: the cause is UNKNOWN." if cause == "UNKNOWN" else ""
    return f"{unknown} {NOT_RECORDED.capitalize()}."


def imported_notes(grid: GridSpec) -> tuple[str, ...]:
    """Return the first notes of a report; none for a study that ablate ran.

    Args:
        grid: the study.
    """
    found = grid.imported
    if found is None:
        return ()
    said = (
        f"Imported from {found.kind}, {found.source}. That both sides of a pair started from the same weights and saw "
        "the same data is taken on trust, and contrasts were chosen after the runs."
    )
    if not found.rounded:
        return (said,)
    return (
        said,
        f"The losses there have at most {found.digits} significant digits, too few to tell every float32 apart: equal "
        "ones may have differed, so BITWISE EQUAL is not claimed.",
    )
