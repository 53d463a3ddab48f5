"""How large a contrast's gap is, as far as its blocks can tell: every statistic, and the word for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ablate.design.attainable import LEVEL
from ablate.design.spec import Margin
from analysis import blocks_needed
from analysis.bca import Interval, mean_interval, ratio_interval
from analysis.pairing import Pairing
from analysis.relative import relative_gap
from analysis.sign_flip import SignFlip, sign_flip
from analysis.tost import Equivalence, equivalence

Size = Literal["DIFFERENT", "EQUIVALENT", "DIFFERENT BUT NEGLIGIBLE", "UNDECIDED", "EQUAL"]


@dataclass(frozen=True)
class Effect:
    """Statistics of one contrast. The unit of replication is the block: all of it is about new seeds on these machines.

    Attributes:
        n: blocks with an outcome on both sides.
        gap: mean of other minus reference; None without blocks.
        relative: mean(other) / mean(reference) - 1; None where that has no meaning.
        gap_interval: 95 % interval of ``gap``.
        relative_interval: 95 % interval of ``relative``.
        test: sign-flip test.
        equivalence: TOST within the margin.
        blocks_for_equivalence: blocks at which TOST has 90 % power if the true gap is 0; None when none can be named.
        blocks_for_difference: blocks at which the gap seen would be found with 90 % power; None when none can be named.
    """

    n: int
    gap: float | None
    relative: float | None
    gap_interval: Interval
    relative_interval: Interval
    test: SignFlip
    equivalence: Equivalence
    blocks_for_equivalence: int | None
    blocks_for_difference: int | None


def effect(pairing: Pairing, margin: Margin | None, family: int, seed: int = 0) -> Effect:
    """Compute every statistic of one contrast.

    Args:
        pairing: its paired outcomes.
        margin: largest negligible gap, if one was fixed.
        family: contrasts in the Holm family.
        seed: seed of all resampling.

    Returns:
        Effect: without NaN, whatever the number and spread of the blocks.
    """
    reference, other, gap = pairing.reference, pairing.other, pairing.gap
    return Effect(
        n=len(gap),
        gap=float(np.mean(gap)) if len(gap) else None,
        relative=relative_gap(reference, other),
        gap_interval=mean_interval(gap, seed),
        relative_interval=ratio_interval(reference, other, seed),
        test=sign_flip(gap, seed),
        equivalence=equivalence(reference, other, margin),
        blocks_for_equivalence=blocks_needed.for_equivalence(reference, other, margin) if margin else None,
        blocks_for_difference=blocks_needed.for_difference(gap, family),
    )


def size(bitwise_equal: bool, adjusted_p: float | None, equivalent: bool | None) -> Size:
    """Return the word for a gap.

    Args:
        bitwise_equal: every recorded loss of every pair is equal, which needs no test.
        adjusted_p: Holm-adjusted sign-flip p; None without a test.
        equivalent: TOST's answer; None without a margin or a test.

    Returns:
        Size: UNDECIDED when neither a difference nor equivalence is shown.
    """
    if bitwise_equal:
        return "EQUAL"
    different = adjusted_p is not None and adjusted_p < LEVEL
    if different:
        return "DIFFERENT BUT NEGLIGIBLE" if equivalent else "DIFFERENT"
    return "EQUIVALENT" if equivalent else "UNDECIDED"
