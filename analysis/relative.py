"""The relative gap, where it has a meaning."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]

LARGEST = 1e12
"""Above this the reference is next to nothing, and a percentage of it says nothing."""


def relative_gap(reference: Array, other: Array) -> float | None:
    """Return ``mean(other) / mean(reference) - 1``.

    Args:
        reference: outcomes, shape (blocks,), finite.
        other: outcomes of the same blocks, shape (blocks,), finite.

    Returns:
        float | None: None without blocks, unless every reference outcome is above zero, or when the ratio of a pair, or
        of two reference outcomes, exceeds ``LARGEST``.
    """
    if not len(reference) or not bool(np.all(reference > 0)):
        return None
    with np.errstate(over="ignore"):
        largest = max(float(np.max(np.abs(other / reference))), float(np.max(reference) / np.min(reference)))
    return float(np.mean(other) / np.mean(reference) - 1) if largest <= LARGEST else None
