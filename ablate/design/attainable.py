"""The smallest p-values that a study's design can reach at all, known before anything runs."""

from __future__ import annotations

from collections.abc import Sequence

LEVEL = 0.05
"""Significance level: a difference is claimed below it."""


def smallest_p(pairs: int) -> float:
    """Return the smallest p of a two-sided sign-flip test.

    Of the 2^n assignments of signs, the observed one and its mirror image are always at least as extreme (Fisher
    1935), so p >= 2 / 2^n.
    """
    return min(1.0, 2.0 ** (1 - pairs))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return Holm's step-down adjusted p-values (Holm 1979): the running maximum of (m - rank) p, capped at 1."""
    order = sorted(range(len(p_values)), key=lambda position: p_values[position])
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, position in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[position]))
        adjusted[position] = highest
    return adjusted


def blocks_needed(family: int) -> int:
    """Return the fewest blocks with which every contrast of a family of this size could reach the level."""
    pairs = 1
    while family * smallest_p(pairs) >= LEVEL:
        pairs += 1
    return pairs
