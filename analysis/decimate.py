"""Thins a long curve for a figure and keeps every extreme: a spike of one batch stays visible."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]
Index = np.ndarray[Any, np.dtype[np.int64]]

POINTS = 600
"""More than a figure has pixels to show apart."""


def decimate(batch: Index, middle: Array, low: Array, high: Array, points: int = POINTS) -> tuple[Index, ...]:
    """Cut a curve into bins and keep of each the smallest and the largest point, with the bin's whole band.

    Args:
        batch: ascending, shape (n,).
        middle: the curve, shape (n,), finite.
        low: lower edge of its band, shape (n,).
        high: upper edge of its band, shape (n,).
        points: how many to keep at most; a curve no longer than that stays as it is.

    Returns:
        tuple: batch, middle, low and high of the points kept, in order. Both points of a bin carry its lowest ``low``
        and its highest ``high``, so no extreme of curve or band is lost.

    Raises:
        ValueError: if fewer than two points are asked for.
    """
    if points < 2:
        raise ValueError(f"points is {points}; a bin needs two")
    if len(batch) <= points:
        return batch, middle, low, high
    starts = np.array([part[0] for part in np.array_split(np.arange(len(batch)), points // 2)])
    ends = np.array([_extremes(part) for part in np.split(middle, starts[1:])]) + starts[:, None]
    ends.sort(axis=1)
    once = np.c_[np.full(len(ends), True), ends[:, 0] < ends[:, 1]]
    at, bins = ends[once], np.nonzero(once)[0]
    return batch[at], middle[at], np.minimum.reduceat(low, starts)[bins], np.maximum.reduceat(high, starts)[bins]


def _extremes(part: Array) -> tuple[int, int]:
    return int(part.argmin()), int(part.argmax())
