"""The smallest true gap that a planned number of blocks would find, and how well the spread is known for that.

Power is that of the t test (``statsmodels.stats.power.TTestPower``, from the noncentral t distribution), which the
sign-flip test nearly attains; where the sign-flip test cannot reach the level at all, no gap is found.
"""

from __future__ import annotations

import math

from scipy.stats import chi2
from statsmodels.stats.power import TTestPower

from ablate.design.attainable import LEVEL, smallest_p
from analysis.blocks_needed import LARGEST_EFFECT

POWER = 0.80


def smallest_gap(sd: float, blocks: int, family: int) -> float | None:
    """Return the smallest gap that is found with 80 % power.

    Args:
        sd: standard deviation of the gap between blocks.
        blocks: blocks that are planned.
        family: contrasts in the Holm family; the smallest p of the family is held to ``LEVEL / family``.

    Returns:
        float | None: None if so few blocks cannot reach the level, whatever the gap.
    """
    level = LEVEL / max(family, 1)
    if blocks < 2 or smallest_p(blocks) >= level:
        return None
    solver = TTestPower()
    low, high = 0.0, LARGEST_EFFECT
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        power = float(solver.power(middle, blocks, level, alternative="two-sided"))
        # power is not a number where it is 1 to the last bit
        low, high = (low, middle) if math.isnan(power) or power >= POWER else (middle, high)
    return high * sd


def spread_interval(sd: float, blocks: int) -> tuple[float, float]:
    """Return the 95 % interval of a standard deviation that was seen over so many blocks, if gaps are normal.

    Args:
        sd: what was seen.
        blocks: over how many blocks, at least 2.
    """
    freedom = blocks - 1
    return sd * math.sqrt(freedom / chi2.ppf(0.975, freedom)), sd * math.sqrt(freedom / chi2.ppf(0.025, freedom))
