"""What the tests take for granted, and how often they go wrong without it: words for whoever rests a claim on them.

The sign-flip test is exact if both sides do the same: within a block either may then come out higher, and differences
are symmetric. It is no exact test of equal means, and with a handful of blocks no test is: where two sides have equal
means but scatter in different shapes, differences are skewed, and large ones on the rare side are likely to be missed.
TOST is a t test, which suffers the same way. Heavy tails alone take neither above its level.

The rates are from ``docs/statistics.md`` (``benchmarks/error_rates.py``): the largest at 6, 10 and 20 blocks of
log-normal differences. Tests hold them against that page and simulate them again.
"""

from __future__ import annotations

from collections.abc import Iterable

from analysis.size import Size

SKEWED_DIFFERENCE = 0.17
"""How often a mean difference of 0 has p < .05 if differences are log-normal."""

SKEWED_FAMILY = 0.25
"""How often the least of 3 such p, adjusted by Holm's procedure, is below .05."""

SKEWED_EQUIVALENCE = 0.22
"""How often TOST has p < .05 at a gap equal to the margin if differences are log-normal."""


def assumption_words(sizes: Iterable[Size]) -> list[str]:
    """Return what must be said of the tests on which these sizes rest; nothing for those that claim nothing."""
    claimed = set(sizes)
    found = []
    if claimed & {"DIFFERENT", "DIFFERENT BUT NEGLIGIBLE"}:
        found.append(
            "p is exact for the question whether both sides do the same. It speaks of their means only if the blocks' "
            f"differences are symmetric: of log-normal ones with mean 0 up to {SKEWED_DIFFERENCE:.0%} have p < 0.05, "
            f"and of 3 such contrasts one or more in up to {SKEWED_FAMILY:.0%} of studies, in spite of Holm."
        )
    if claimed & {"EQUIVALENT", "DIFFERENT BUT NEGLIGIBLE"}:
        found.append(
            "TOST takes the blocks' differences as normal: of log-normal ones up to "
            f"{SKEWED_EQUIVALENCE:.0%} would pass at a gap as large as the margin, instead of 5%."
        )
    return found
