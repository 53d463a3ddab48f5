"""What the one-ulp control says about a contrast, in words."""

from __future__ import annotations

from analysis.digits import interval, p_words, plural, signed
from analysis.one_ulp import FEWEST, BeyondOneUlp

STEP = "what one rounding step in the initial weights causes"


def one_ulp_words(beyond: BeyondOneUlp, gap: float | None) -> str:
    """Compare a gap with that of the one-ulp control.

    Args:
        beyond: their difference over the blocks that both have.
        gap: the contrast's gap.

    Returns:
        str: what the test of the difference shows, then the difference; with too few blocks for a test that.
    """
    if beyond.difference is None or gap is None or beyond.n < FEWEST:
        common = f"{plural(beyond.n, 'block')} in common, at least {FEWEST} are needed"
        return f"not compared with the one-ulp control: {common}"
    difference = f"difference {signed(beyond.difference)} {interval(beyond.interval)}, {p_words(beyond.test.p)}"
    if not beyond.shown:
        return f"the gap is not shown to be larger than {STEP}: {difference}"
    larger = abs(gap) > abs(gap - beyond.difference)
    return f"the gap {'is larger than' if larger else 'differs from'} {STEP}: {difference}"
