"""How many blocks would decide a contrast that so few have left undecided.

Both answers plan with the spread that was seen, itself uncertain when few blocks were run. Power is that of the t test
(``statsmodels.stats.power.TTestPower``), which the sign-flip test nearly attains.

Equivalence, at a true gap of 0, needs both one-sided tests to pass, so each must have a power of .95 for both to have
.90: about (1.645 + 1.645)^2 = 10.8 times (sd / margin)^2 blocks. (The 8.6 often quoted is for one of the two tests;
simulated, it gives both a power of .79.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from statsmodels.stats.power import TTestPower

from ablate.design.attainable import LEVEL, smallest_p
from ablate.design.spec import Margin
from analysis.scale import constant, to_unit

Array = np.ndarray[Any, np.dtype[np.float64]]

POWER = 0.90
MOST = 100_000
LARGEST_EFFECT = 1e3  # in standard deviations; any larger needs no more than the fewest blocks


def for_equivalence(reference: Array, other: Array, margin: Margin) -> int | None:
    """Return the blocks at which TOST has 90 % power if the true gap is 0.

    Args:
        reference: outcomes, shape (blocks,).
        other: outcomes of the same blocks, shape (blocks,).
        margin: largest negligible gap.

    Returns:
        int | None: None without spread to plan with, or above ``MOST``.
    """
    gap = other - reference
    if len(gap) < 2 or constant(gap):
        return None
    edge = margin.value / 100 * reference if margin.unit == "percent" else np.full_like(gap, margin.value)
    reach = float(np.mean(edge))
    spread = max(float(np.std(edge - gap, ddof=1)), float(np.std(edge + gap, ddof=1)))
    if not (reach > 0 and spread > 0):
        return None
    effect = min(reach / spread, LARGEST_EFFECT)
    solver = TTestPower()
    return _fewest(lambda n: 2 * float(solver.power(effect, n, LEVEL, alternative="larger")) - 1)


def for_difference(gap: Array, family: int) -> int | None:
    """Return the blocks at which a gap as large as the one seen would be found with 90 % power.

    Args:
        gap: other minus reference, shape (blocks,).
        family: contrasts in the Holm family; the smallest p of the family is held to ``LEVEL / family``.

    Returns:
        int | None: None without a gap or a spread to plan with, or above ``MOST``.
    """
    if len(gap) < 2 or constant(gap) or float(np.mean(gap)) == 0:
        return None
    scaled = to_unit(gap)[0]
    effect = min(abs(float(np.mean(scaled))) / float(np.std(scaled, ddof=1)), LARGEST_EFFECT)
    level = LEVEL / max(family, 1)
    solver = TTestPower()

    def power(n: int) -> float:
        return float(solver.power(effect, n, level, alternative="two-sided")) if smallest_p(n) < level else 0.0

    return _fewest(power)


def _fewest(power: Callable[[int], float]) -> int | None:
    """Return the smallest n in 2..MOST with enough power, which grows with n; None if even MOST has too little."""
    low, high = 1, 2
    while power(high) < POWER:
        if high >= MOST:
            return None
        low, high = high, min(2 * high, MOST)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if power(middle) >= POWER else (middle, high)
    return high
