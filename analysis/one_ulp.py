"""How far one unit in the last place carries: a contrast's gap minus that of the one-ulp control over the same blocks.

Training is chaotic, so arms that round differently part and end with different outcomes. A control whose initial
weights were moved by one ulp shows how far that alone takes an outcome, without any change of arm.

Whether the gap is more than that is decided by the sign-flip test of the difference, at the level of every other claim.
Its BCa interval says how large the difference is; alone it would claim one where there is none as often as it fails to
cover: 13, 9 and 8 % of the time at 6, 10 and 20 blocks (``docs/statistics.md``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ablate.design.attainable import LEVEL, blocks_needed
from ablate.design.trial_spec import Scalar
from analysis.bca import Interval, mean_interval
from analysis.pairing import Pairing
from analysis.sign_flip import SignFlip, sign_flip

FEWEST = blocks_needed(1)
"""Blocks below which no p of the test is below the level."""


@dataclass(frozen=True)
class BeyondOneUlp:
    """The gap minus the one-ulp control's gap, over the blocks both have.

    Attributes:
        control: label of the control contrast.
        n: blocks both have.
        difference: mean difference; None without blocks.
        interval: its 95 % BCa interval; the unit of replication is the block.
        test: whether it is as likely to have either sign.
    """

    control: str
    n: int
    difference: float | None
    interval: Interval
    test: SignFlip

    @property
    def shown(self) -> bool:
        """Whether the gap is shown to be another than what one ulp does."""
        return self.test.p is not None and self.test.p < LEVEL


@dataclass(frozen=True)
class OneUlpControl:
    """A one-ulp control contrast: its label, the arm it perturbs, and its paired outcomes."""

    label: str
    original: str
    pairing: Pairing


def beyond_one_ulp(
    pairing: Pairing, levels: tuple[Scalar, Scalar], controls: Sequence[OneUlpControl], seed: int = 0
) -> BeyondOneUlp | None:
    """Compare a contrast with a one-ulp control.

    Args:
        pairing: the contrast's paired outcomes.
        levels: its reference and other; a control of the reference arm is preferred, then one of the other, then any.
        controls: the study's one-ulp controls.
        seed: seed of the resampling.

    Returns:
        BeyondOneUlp | None: None without a control.
    """
    if not controls:
        return None
    control = min(controls, key=lambda c: levels.index(c.original) if c.original in levels else len(levels))
    noise = dict(zip((p.block for p in control.pairing.pairs), control.pairing.gap, strict=True))
    mine = dict(zip((p.block for p in pairing.pairs), pairing.gap, strict=True))
    excess = np.array([mine[block] - noise[block] for block in sorted(mine.keys() & noise.keys())], dtype=np.float64)
    mean = float(np.mean(excess)) if len(excess) else None
    return BeyondOneUlp(control.label, len(excess), mean, mean_interval(excess, seed), sign_flip(excess, seed))
