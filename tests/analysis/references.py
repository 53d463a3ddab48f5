"""Slow, literal versions of the statistics, which the analysis is compared with."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy.stats import norm, t

NORMAL = norm()


def brute_force_sign_flip(differences: Sequence[float]) -> float:
    """Try every sign pattern; count those whose mean is at least as far from 0 (ties counted, up to rounding)."""
    seen = abs(math.fsum(differences))
    at_least = 0
    for signs in itertools.product((1.0, -1.0), repeat=len(differences)):
        total = abs(math.fsum(sign * d for sign, d in zip(signs, differences, strict=True)))
        at_least += total >= seen * (1 - 1e-12)
    return at_least / 2 ** len(differences)


def loop_bca(blocks: Sequence[tuple[float, ...]], statistic: Callable[..., float], seed: int, resamples: int):
    """BCa interval as Efron (1987) writes it, one resample at a time.

    The resampled blocks are those that scipy draws from the same seed.
    """
    n = len(blocks)
    chosen = np.random.default_rng(seed).integers(0, n, (resamples, n))
    replicates = sorted(statistic([blocks[i] for i in row]) for row in chosen)
    seen = statistic(blocks)
    below = sum(value < seen for value in replicates) + 0.5 * sum(value == seen for value in replicates)
    z0 = NORMAL.ppf(below / resamples)
    left_out = [statistic([block for j, block in enumerate(blocks) if j != i]) for i in range(n)]
    mean = math.fsum(left_out) / n
    cubes = math.fsum((mean - value) ** 3 for value in left_out)
    squares = math.fsum((mean - value) ** 2 for value in left_out)
    acceleration = cubes / (6 * squares**1.5)
    ends = []
    for level in (0.025, 0.975):
        z = z0 + NORMAL.ppf(level)
        share = NORMAL.cdf(z0 + z / (1 - acceleration * z))
        place = share * (resamples - 1)
        low = math.floor(place)
        high = min(low + 1, resamples - 1)
        ends.append(replicates[low] + (place - low) * (replicates[high] - replicates[low]))
    return ends[0], ends[1]


def step_down_holm(p_values: Sequence[float]) -> list[float]:
    """Holm's procedure, step by step."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def one_sided_t(values: Sequence[float]) -> float:
    """P value of "the mean is at most 0" by the t test."""
    n = len(values)
    mean = math.fsum(values) / n
    variance = math.fsum((value - mean) ** 2 for value in values) / (n - 1)
    return float(t.sf(mean / math.sqrt(variance / n), n - 1))
