"""Sign-flip test of the paired differences: do both sides do the same?

If they do, each block's difference is as likely to have either sign, so flipping signs gives the distribution of its
mean, whatever its shape. A small p says that the sides differ; that their means do follows only if the differences are
symmetric (``analysis.assumptions`` says how far it goes wrong otherwise). With n blocks there are 2^n sign patterns,
and no two-sided p below 2 / 2^n exists: 5 blocks can never reach .05, 6 can.

Source: Fisher, The Design of Experiments (1935), section 21; computed by ``scipy.stats``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from ablate.design.attainable import smallest_p
from analysis.scale import to_unit

Array = np.ndarray[Any, np.dtype[np.float64]]

EXACT_UP_TO = 16
RESAMPLES = 99_999
AT_ONCE = 2_000
"""Sign patterns in the making at once; those of 200 blocks take 10 MB. The numbers do not depend on it."""


@dataclass(frozen=True)
class SignFlip:
    """Result of the test.

    Attributes:
        p: two-sided p value; None without blocks.
        smallest: smallest p these differences could have given (zero differences carry no sign).
        method: in words, exact or Monte Carlo, with the number of sign patterns.
    """

    p: float | None
    smallest: float | None
    method: str


def sign_flip(differences: Array, seed: int = 0) -> SignFlip:
    """Test whether a difference is as likely to have either sign.

    The unit of replication is the block: p speaks about new seeds on the machines that were measured.

    Args:
        differences: other minus reference, shape (blocks,), finite.
        seed: seed of the Monte Carlo sign patterns, used above ``EXACT_UP_TO`` blocks only.

    Returns:
        SignFlip: exact for at most ``EXACT_UP_TO`` blocks. Zero differences are counted, and give p = 1 if all are.
    """
    n = len(differences)
    if n == 0:
        return SignFlip(None, None, "no test: no blocks")
    signed = int(np.count_nonzero(differences))
    if signed == 0:
        return SignFlip(1.0, 1.0, "no test needed: all differences are zero")
    if n == 1:
        return SignFlip(1.0, 1.0, "exact, 2 sign patterns")
    values = to_unit(differences)[0]
    if n > EXACT_UP_TO:
        smallest = max(smallest_p(signed), 2.0 / (RESAMPLES + 1))
        return SignFlip(_sampled(values, seed), smallest, f"Monte Carlo, {RESAMPLES} sign patterns, seed {seed}")
    result = stats.permutation_test(
        (values,), np.mean, permutation_type="samples", vectorized=True, n_resamples=2**n, batch=AT_ONCE
    )
    return SignFlip(float(result.pvalue), smallest_p(signed), f"exact, {2**n} sign patterns")


def _sampled(values: Array, seed: int) -> float:
    """Return p from random sign patterns, by ``monte_carlo_test``: drawing them takes a fifth of flipping pairs."""
    draws = np.random.default_rng(seed)

    def flipped(size: tuple[int, int]) -> Array:
        return np.where(draws.integers(0, 2, size, dtype=np.bool_), values, -values)

    result = stats.monte_carlo_test(values, flipped, np.mean, vectorized=True, n_resamples=RESAMPLES, batch=AT_ONCE)
    return float(result.pvalue)
