"""Two one-sided tests (TOST): is the gap inside the equivalence margin on both sides?

Absence of a significant difference is no evidence of equality; TOST asks the opposite question, with "the gap is at
least as large as the margin" as its null hypothesis. Source: Schuirmann, J. Pharmacokin. Biopharm. 15 (1987); computed
by ``statsmodels.stats.weightstats.ttost_paired``.

A margin in percent of the reference's mean moves with that mean, which is estimated too. So it is tested as the ratio
it is: the two one-sided tests are of other - (1 + m) * reference < 0 and other - (1 - m) * reference > 0 (Sasabuchi,
Biometrika 67 (1980)), and the reference's own spread counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from statsmodels.stats.weightstats import ttost_paired

from ablate.design.attainable import LEVEL
from ablate.design.spec import Margin
from analysis.scale import constant, to_unit

Array = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Equivalence:
    """Result of the test.

    Attributes:
        p: the larger of the two one-sided p values; None when no test could be made.
        equivalent: whether p is below ``LEVEL``; None without a margin or without a test.
        method: in words, how it was decided or why not.
    """

    p: float | None
    equivalent: bool | None
    method: str


def equivalence(reference: Array, other: Array, margin: Margin | None) -> Equivalence:
    """Test whether the gap lies within the margin.

    The unit of replication is the block: the claim is about new seeds on the machines that were measured.

    Args:
        reference: outcomes, shape (blocks,), finite.
        other: outcomes of the same blocks, shape (blocks,), finite.
        margin: largest negligible gap; None claims nothing.

    Returns:
        Equivalence: decided without a test when there is no spread (the limit of the t test as the spread vanishes).
    """
    if margin is None:
        return Equivalence(None, None, "no margin: no equivalence is claimed")
    n = len(reference)
    if n < 2:
        return Equivalence(None, None, f"no test: {n} of at least 2 blocks")
    if margin.unit == "percent" and not float(np.mean(reference)) > 0:
        return Equivalence(None, None, "no test: a margin in percent needs a reference above zero")
    above, below = _distances(reference, other, margin)
    p = max(_one_sided(above), _one_sided(below))
    spread = not (constant(above) and constant(below))
    return Equivalence(p, p < LEVEL, "TOST" if spread else "no spread: decided without a test")


def _distances(reference: Array, other: Array, margin: Margin) -> tuple[Array, Array]:
    """Return each block's distance to the upper and to the lower margin, positive inside; shapes (blocks,)."""
    reach = margin.value / 100 * reference if margin.unit == "percent" else np.full_like(reference, margin.value)
    gap = other - reference
    return reach - gap, reach + gap


def _one_sided(distance: Array) -> float:
    """Return the p value of "the mean distance is at most 0"; one side of ``ttost_paired``, the other left open."""
    if constant(distance):
        return 0.0 if distance[0] > 0 else 1.0
    scaled = to_unit(distance)[0]
    return float(ttost_paired(scaled, np.zeros_like(scaled), 0.0, np.inf)[1][1])
