"""Studies whose truth is known, made by the thousand, and what the analysis says of them.

A study's differences are drawn with mean 0 and standard deviation 1, so gaps and margins are in standard deviations of
the difference. Everything is decided by the analysis' own functions; only the sign-flip p of thousands of studies is
computed here in one go (``exact_p``), which a test holds against ``analysis.sign_flip``; Holm's adjustment is that of a
plan, which a test holds against ``analysis.holm``: that one collects garbage at every call.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ablate.design.attainable import LEVEL, holm
from ablate.design.spec import Margin
from analysis.bca import Interval, mean_interval, ratio_interval
from analysis.blocks_needed import for_difference, for_equivalence
from analysis.headline import Cause, headline
from analysis.size import size
from analysis.tost import equivalence

Array = np.ndarray[Any, np.dtype[np.float64]]

STUDIES = 2000
BLOCKS = (6, 10, 20)


@dataclass(frozen=True)
class Rate:
    """In how many of so many simulated studies something happened."""

    count: int
    studies: int

    @property
    def share(self) -> float:
        """As a fraction."""
        return self.count / self.studies

    @property
    def error(self) -> float:
        """Monte Carlo standard error of the share."""
        return math.sqrt(self.share * (1 - self.share) / self.studies)

    def exceeds(self, level: float) -> bool:
        """Say whether the share is more than 3 standard errors, those of a true rate of ``level``, above it."""
        return self.share > level + 3 * math.sqrt(level * (1 - level) / self.studies)

    def __str__(self) -> str:
        return f"{100 * self.share:.1f} ± {100 * self.error:.1f} %"


def _normal(draws: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return draws.standard_normal(shape)


def _skewed(draws: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Log-normal, its mean taken off and divided by its standard deviation: skewness 6.2."""
    return np.asarray((draws.lognormal(size=shape) - math.exp(0.5)) / math.sqrt((math.e - 1) * math.e))


def _heavy_tailed(draws: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Student's t with 3 degrees of freedom, the fewest that have a standard deviation, divided by it."""
    return draws.standard_t(3, shape) / math.sqrt(3)


DISTRIBUTIONS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], Array]] = {
    "normal": _normal,
    "skewed": _skewed,
    "heavy-tailed": _heavy_tailed,
}


def differences(distribution: str, blocks: int, seed: int, studies: int = STUDIES) -> Array:
    """Draw every study's differences, shape (studies, blocks), with mean 0 and standard deviation 1."""
    return DISTRIBUTIONS[distribution](np.random.default_rng([seed, blocks]), (studies, blocks))


def exact_p(values: Array) -> Array:
    """Return the exact two-sided sign-flip p of each study.

    The signed sums of all blocks are those of one half of the blocks plus those of the other; sorted, a binary search
    counts how many reach what was seen. 20 blocks need 2 x 1024 sums instead of 1,048,576.

    Args:
        values: shape (studies, blocks), not all 0 in any study.

    Returns:
        Array: shape (studies,).
    """
    blocks = values.shape[1]
    half = blocks // 2
    first = np.sort(values[:, :half] @ _signs(half).T, axis=1)
    second = values[:, half:] @ _signs(blocks - half).T
    slack = 1e-12 * np.abs(values).sum(axis=1)  # a pattern that ties with what was seen counts, whatever its rounding
    needed = (np.abs(values.sum(axis=1)) - slack)[:, None] - second
    missed = [np.searchsorted(*both).sum() for both in zip(first, needed, strict=True)]
    reached = 2.0**blocks - np.array(missed)
    return np.minimum(2 * reached / 2.0**blocks, 1.0)


def _signs(blocks: int) -> Array:
    return 1.0 - 2 * ((np.arange(2**blocks)[:, None] >> np.arange(blocks)) & 1)


def attainable(blocks: int) -> float:
    """Return the largest p below ``LEVEL`` that an exact sign-flip test of so many blocks can give."""
    step = 2.0 ** (1 - blocks)
    return step * (math.ceil(LEVEL / step) - 1)


def false_difference(values: Array) -> Rate:
    """How often the sign-flip test rejects although the mean difference is 0."""
    return Rate(int((exact_p(values) < LEVEL).sum()), len(values))


def false_difference_of_any(values: Array, family: int) -> Rate:
    """How often Holm's adjustment lets any contrast of a family reject although no mean difference is 0.

    Args:
        values: shape (studies * family, blocks).
        family: contrasts of a study.
    """
    p_values = exact_p(values).reshape(-1, family)
    hopeful = p_values[p_values.min(axis=1) < LEVEL]  # no adjustment makes a p smaller
    return Rate(sum(min(holm([float(p) for p in row])) < LEVEL for row in hopeful), len(p_values))


def claims_equivalence(values: Array, gap: float, margin: float) -> Rate:
    """How often TOST claims equivalence within ``margin`` where the true gap is ``gap``."""
    return Rate(sum(bool(_tost(row + gap, margin)) for row in values), len(values))


def _tost(gaps: Array, margin: float) -> bool | None:
    return equivalence(np.zeros_like(gaps), gaps, Margin(value=margin)).equivalent


def mean_coverage(values: Array, seed: int) -> Rate:
    """How often the BCa interval of the mean gap covers the true one, 0."""
    return _covered([mean_interval(row, seed + study) for study, row in enumerate(values)], 0.0)


def ratio_coverage(values: Array, seed: int) -> Rate:
    """How often the BCa interval of the relative gap covers the true one, 10 %.

    The reference's outcomes are normal with mean 1 and spread .1; the difference has a spread of .05 beside.
    """
    draws, found = np.random.default_rng(seed), []
    for study, row in enumerate(values):
        reference = np.maximum(1 + 0.1 * draws.standard_normal(len(row)), 0.1)
        found.append(ratio_interval(reference, 1.1 * reference + 0.05 * row, seed + study))
    return _covered(found, 0.1)


def _covered(intervals: list[Interval], truth: float) -> Rate:
    return Rate(sum(not interval.excludes(truth) for interval in intervals), len(intervals))


@dataclass(frozen=True)
class Truth:
    """What is true of a contrast, in standard deviations of its difference.

    Attributes:
        gap: its true gap.
        one_ulp: the true gap of the one-ulp control, whose difference scatters as the contrast's does.
    """

    gap: float
    one_ulp: float = 0.0


TRUTHS: dict[str, Truth] = {
    "no gap": Truth(0.0),
    "a gap of half the margin": Truth(0.5),
    "a gap of the margin": Truth(1.0),
    "a gap of twice the margin": Truth(2.0),
    "a gap of twice the margin, and one ulp does the same": Truth(2.0, 2.0),
}
MARGIN = 1.0


def headlines(
    distribution: str, blocks: int, truth: Truth, why: Cause, seed: int, studies: int = STUDIES
) -> Counter[str]:
    """Count the headlines of studies of one contrast with a margin of 1 and a one-ulp control.

    Args:
        distribution: of the differences.
        blocks: of each study.
        truth: what is true of the contrast.
        why: its cause.
        seed: of the draws.
        studies: how many.
    """
    gaps = truth.gap + differences(distribution, blocks, seed, studies)
    control = truth.one_ulp + differences(distribution, blocks, seed + 1, studies)
    found: Counter[str] = Counter()
    beyond = exact_p(gaps - control) < LEVEL
    for gap, p, more in zip(gaps, exact_p(gaps), beyond, strict=True):
        found[headline(why, size(False, float(p), _tost(gap, MARGIN)), bool(more))] += 1
    return found


def planned_for_difference(effect: float) -> int:
    """Return how many blocks a report calls enough where it sees a gap of ``effect`` standard deviations."""
    blocks = for_difference(effect + _SEEN, 1)
    assert blocks is not None, "there is a gap and a spread"
    return blocks


def planned_for_equivalence(margin: float) -> int:
    """Return how many blocks a report calls enough to show equivalence within ``margin`` standard deviations."""
    blocks = for_equivalence(np.zeros_like(_SEEN), _SEEN, Margin(value=margin))
    assert blocks is not None, "there is a spread"
    return blocks


_SEEN = np.array([-1.0, 1.0]) / math.sqrt(2)
"""Differences whose mean is 0 and whose standard deviation is 1, as a report estimates them."""
