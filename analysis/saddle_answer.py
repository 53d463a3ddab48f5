"""Do some arms get stuck near saddle points that others escape? Yes, no, or not decided, by a stated rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ablate.design.attainable import LEVEL
from analysis.bca import FEWEST
from analysis.digits import p_words, plural
from analysis.saddle_contrast import ALIKE_WITHIN, TimeNearSaddles

Word = Literal["YES", "NO", "NOT DECIDED", "NOTHING TO COMPARE"]

QUESTION = "Do some arms get stuck near saddle points that others escape?"
RULE = (
    "YES if the share of snapshots near a saddle differs in a contrast: Holm-adjusted p below "
    f"{LEVEL} and a 95% interval that excludes 0, with every undecided snapshot counted against it; NO if in every "
    f"contrast it differs by at most {100 * ALIKE_WITHIN:.0f} points of 100, undecided ones counted either way; else "
    "NOT DECIDED"
)


@dataclass(frozen=True)
class Answer:
    """The answer.

    Attributes:
        word: YES, NO, NOT DECIDED, or NOTHING TO COMPARE for a grid without contrasts.
        sentence: why.
        rule: by which it was found.
    """

    word: Word
    sentence: str
    rule: str = RULE


def answer(
    found: Sequence[TimeNearSaddles], refused: Sequence[str], several: bool, slopes: tuple[int, int] = (0, 0)
) -> Answer:
    """Answer.

    Args:
        found: the contrasts that could be compared.
        refused: those that could not, and why.
        several: whether there are several players, so that each is named.
        slopes: how many of all snapshots after training began are on a slope, and how many there are.
    """
    if not found and not refused:
        return Answer("NOTHING TO COMPARE", "the grid has no contrast of its own.")
    different = [one for one in found if one.decision == "DIFFERENT"]
    if different:
        rest = len(found) - len(different)
        also = f" {plural(rest, 'other contrast')}: not so, or not decided." if rest else ""
        return Answer("YES", "; ".join(_difference(one, several) for one in different) + "." + also)
    if found and not refused and all(one.decision == "ALIKE" for one in found):
        blocks = min(one.n for one in found)
        return Answer("NO", f"{_alike(found, slopes)}, in these {plural(blocks, 'block')}.")
    open_ones = [f"{_name(one, several)}: {_why(one)}" for one in found if one.decision == "UNDECIDED"]
    return Answer("NOT DECIDED", "; ".join([*open_ones, *refused]) + ".")


def points(share: float) -> str:
    """Return a share as points of 100, ``75%``."""
    return f"{100 * share:.0f}%"


def _name(one: TimeNearSaddles, several: bool) -> str:
    return f"{one.contrast} (player {one.player})" if several else one.contrast


def _difference(one: TimeNearSaddles, several: bool) -> str:
    assert one.reference is not None, "a difference has blocks"
    assert one.other is not None, "a difference has blocks"
    return (
        f"{_name(one, several)}: {points(one.other)} of the snapshots against {points(one.reference)} are near a "
        f"saddle ({p_words(one.adjusted_p, 'Holm p')} over {plural(one.n, 'block')})"
    )


def _alike(found: Sequence[TimeNearSaddles], slopes: tuple[int, int]) -> str:
    shares = [share for one in found for share in (one.reference, one.other) if share is not None]
    if not any(shares):
        where = f" ({slopes[0]} of {slopes[1]} are on a slope, near nothing)" if slopes[0] else ""
        return f"no snapshot of any arm is near a saddle{where}"
    low, high = points(min(shares)), points(max(shares))
    how_many = f"{low} to {high}" if low != high else low
    return f"every arm is near a saddle in about as many of its snapshots as the others ({how_many})"


def _why(one: TimeNearSaddles) -> str:
    """Return what stands in the way, the nearest thing first."""
    if one.n == 0:
        return "no block was looked at on both sides"
    shares = f"{points(one.other or 0)} of the snapshots against {points(one.reference or 0)} are near a saddle"
    if one.n < FEWEST:
        return f"{shares}; {plural(one.n, 'block')}, and an interval needs {FEWEST}"
    if one.undecided and max(one.undecided) > 0:
        mine, theirs = points(one.undecided[1]), points(one.undecided[0])
        return f"{shares}, but {mine} against {theirs} are undecided and could be"
    if one.gap and one.attainable_p is not None and one.attainable_p >= LEVEL:
        return f"{shares}, but with {plural(one.n, 'block')} no Holm p can be below {one.attainable_p:.2g}"
    return f"{shares}, {p_words(one.adjusted_p, 'Holm p')} over {plural(one.n, 'block')}"
