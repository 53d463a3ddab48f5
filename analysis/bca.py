"""Bias-corrected and accelerated (BCa) bootstrap intervals, resampling blocks.

Source: Efron, Better bootstrap confidence intervals, JASA 82 (1987); computed by ``scipy.stats.bootstrap``.

**Few blocks.** BCa promises too much when n is small: ``COVERAGE`` says how often a nominal 95 % interval covers the
truth, by simulation (``docs/statistics.md``; tests hold it against that page and simulate it again). Below ``FEW``
blocks a report says so; below ``FEWEST`` no interval is given, since it could be nothing but the smallest and the
largest value.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from analysis.relative import relative_gap
from analysis.scale import constant, to_unit

Array = np.ndarray[Any, np.dtype[np.float64]]

RESAMPLES = 9_999
FEWEST = 3
FEW = 40
COVERAGE = {3: (0.72, 0.62), 6: (0.87, 0.77), 10: (0.91, 0.83), 20: (0.92, 0.87)}
"""Blocks -> how often an interval covers the mean of normal and of log-normal differences."""


@dataclass(frozen=True)
class Interval:
    """A 95 % interval.

    Attributes:
        low: lower end; None when no interval can be had.
        high: upper end; None when no interval can be had.
        method: how it was made, or why there is none.
    """

    low: float | None
    high: float | None
    method: str

    def excludes(self, value: float) -> bool:
        """Say whether there is an interval and ``value`` lies outside it."""
        return self.low is not None and self.high is not None and not self.low <= value <= self.high


def few_words(blocks: Iterable[int]) -> list[str]:
    """Return what must be said of intervals over so many blocks each: nothing from ``FEW`` on, or without any."""
    fewest = min(blocks, default=FEW)
    if fewest >= FEW:
        return []
    known = max(n for n in COVERAGE if n <= max(fewest, FEWEST))
    normal, skewed = COVERAGE[known]
    return [
        f"With fewer than {FEW} blocks the 95% intervals are too narrow: at {known} they cover the true value about "
        f"{normal:.0%} of the time, {skewed:.0%} if the blocks' differences are log-normal."
    ]


def mean_interval(differences: Array, seed: int = 0) -> Interval:
    """Interval of the mean paired difference.

    The unit of replication is the block: resampling blocks generalises to new seeds on the same machines and data.

    Args:
        differences: other minus reference, shape (blocks,), finite.
        seed: seed of the resampling; NumPy's global state is neither read nor changed.

    Returns:
        Interval: a single point, without resampling, when all differences are equal.
    """
    if len(differences) < FEWEST:
        return _too_few(len(differences))
    if constant(differences):
        point = float(differences[0])
        return Interval(point, point, "all differences equal: no spread to resample")
    scaled, exponent = to_unit(differences)
    interval = _bca((scaled,), _mean, seed)
    return Interval(_ldexp(interval.low, exponent), _ldexp(interval.high, exponent), interval.method)


def ratio_interval(reference: Array, other: Array, seed: int = 0) -> Interval:
    """Interval of ``mean(other) / mean(reference) - 1``, the relative gap.

    The unit of replication is the block: pairs are resampled together, which generalises to new seeds on the same
    machines and data.

    Args:
        reference: outcomes, shape (blocks,), finite.
        other: outcomes of the same blocks, shape (blocks,), finite.
        seed: seed of the resampling; NumPy's global state is neither read nor changed.

    Returns:
        Interval: none where ``relative_gap`` has no meaning.
    """
    if len(reference) < FEWEST:
        return _too_few(len(reference))
    if relative_gap(reference, other) is None:
        return Interval(None, None, "no percentage: the reference's outcomes are not all above zero, or next to it")
    ratios = other / reference - 1
    if constant(ratios):
        point = float(ratios[0])
        return Interval(point, point, "all ratios equal: no spread to resample")
    return _bca((to_unit(reference)[0], np.ldexp(other, -to_unit(reference)[1])), _ratio_of_means, seed)


def _mean(values: Array, axis: int = -1) -> Array:
    """Average in ascending order: a resample that holds every block once must tie with the sample, not nearly tie.

    BCa's correction counts ties by half. They are 1.5 % of all resamples of 6 blocks, and the rounding of a sum in
    drawn order would throw them to either side.
    """
    mean: Array = np.mean(np.sort(values, axis=axis), axis=axis)
    return mean


def _ratio_of_means(reference: Array, other: Array, axis: int = -1) -> Array:
    return _mean(other, axis) / _mean(reference, axis) - 1


def _bca(samples: tuple[Array, ...], statistic: Callable[..., Any], seed: int) -> Interval:
    """Resample blocks; fall back to the percentile interval, and say so, where BCa's correction is not finite."""
    kind = "BCa"
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)
        result = stats.bootstrap(
            samples,
            statistic,
            n_resamples=RESAMPLES,
            vectorized=True,
            paired=len(samples) > 1,
            method="BCa",
            random_state=np.random.default_rng(seed),
        )
        low, high = (float(end) for end in result.confidence_interval)
        if not np.isfinite([low, high]).all():
            kind = "percentile (BCa's correction is not finite here)"
            low, high = (float(end) for end in np.quantile(result.bootstrap_distribution, [0.025, 0.975]))
    return Interval(low, high, f"{kind}, {RESAMPLES} resamples of {len(samples[0])} blocks, seed {seed}")


def _too_few(n: int) -> Interval:
    return Interval(None, None, f"no interval: {n} of at least {FEWEST} blocks")


def _ldexp(value: float | None, exponent: int) -> float | None:
    return None if value is None else float(np.ldexp(value, exponent))
