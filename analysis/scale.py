"""Scaling by a power of two: exact, and it keeps cubes and squares of extreme outcomes inside float64."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]


def to_unit(values: Array) -> tuple[Array, int]:
    """Scale so that the largest absolute value lies in [0.5, 1).

    Args:
        values: any shape, finite.

    Returns:
        tuple[Array, int]: the scaled values and the exponent e; ``values == ldexp(scaled, e)`` but for parts that
        underflow, which are below 2^-1022 of the largest.
    """
    largest = float(np.max(np.abs(values))) if values.size else 0.0
    exponent = int(np.frexp(largest)[1])
    return np.ldexp(values, -exponent), exponent


def constant(values: Array) -> bool:
    """Say whether there is no spread at all: every value is the same number."""
    return values.size == 0 or float(np.ptp(values)) == 0.0
