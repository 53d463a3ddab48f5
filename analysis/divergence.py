"""Where two trials part: the first batch whose loss differs in any bit, and how far apart they are later."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]
Index = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Trace:
    """One trial's losses.

    Attributes:
        batch_index: ascending, shape (batches,).
        loss: float64 as recorded, shape (batches,).
    """

    batch_index: Index
    loss: Array


@dataclass(frozen=True)
class Parting:
    """How one matched pair of trials parts.

    Attributes:
        block: the pair's block.
        first: first batch whose loss differs; None when no common batch does.
        compared: batches that both trials have.
        complete: whether both trials have the same batches, at least one.
        growth: (batch, relative difference of the losses there), from the first differing batch on.
    """

    block: int
    first: int | None
    compared: int
    complete: bool
    growth: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class Divergence:
    """How a contrast's sides part, over all its matched pairs.

    Attributes:
        pairs: matched pairs of trials compared.
        batches: batches compared, summed over pairs.
        differing: pairs with at least one differing batch.
        earliest: smallest first differing batch; None when none differs.
        median: median first differing batch of the pairs that differ; None when none does.
        bitwise_equal: whether every loss of every pair is equal, all pairs are complete and there is at least one.
        growth: (batches after a pair's first differing one, median over pairs of the relative difference there).
    """

    pairs: int
    batches: int
    differing: int
    earliest: int | None
    median: float | None
    bitwise_equal: bool
    growth: tuple[tuple[int, float], ...]


def same_bits(a: Array, b: Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Compare float64 values by their bits: NaN equals a NaN of the same bits, -0.0 is not 0.0.

    Args:
        a: shape (n,).
        b: shape (n,).

    Returns:
        shape (n,).
    """
    equal: np.ndarray[Any, np.dtype[np.bool_]] = a.view(np.uint64) == b.view(np.uint64)
    return equal


def shared(reference: Trace, other: Trace) -> tuple[Index, Array, Array]:
    """Return the batches that both have, and the losses of either there; mostly both have the same."""
    both = in_both(reference.batch_index, other.batch_index)
    if both is None:
        return reference.batch_index, reference.loss, other.loss
    common, mine, theirs = both
    return common, reference.loss[mine], other.loss[theirs]


def in_both(a: Index, b: Index) -> tuple[Index, Index, Index] | None:
    """Return the batches that are in both, and where in either; None if both are the same.

    Args:
        a: batch indices that do not descend; of one that is there twice, in a damaged store, the first counts.
        b: others.
    """
    if np.array_equal(a, b):
        return None
    common, mine, theirs = np.intersect1d(a, b, return_indices=True)
    return common, mine, theirs


def part(block: int, reference: Trace, other: Trace) -> Parting:
    """Compare two trials batch by batch.

    Args:
        block: their block.
        reference: losses of the reference.
        other: losses of the other side.

    Returns:
        Parting: over the batches both have; a trial that stopped early is compared as far as it came.
    """
    common, a, b = shared(reference, other)
    complete = 0 < len(common) == len(reference.batch_index) == len(other.batch_index)
    equal = same_bits(a, b)
    if equal.all():
        return Parting(block, None, len(common), complete, ())
    start = int(equal.argmin())
    places = [start, *(start + 10**k for k in range(1, 9) if start + 10**k < len(common)), len(common) - 1]
    growth = tuple((int(common[i]), _relative(float(a[i]), float(b[i]))) for i in dict.fromkeys(places))
    return Parting(
        block, int(common[start]), len(common), complete, tuple(step for step in growth if math.isfinite(step[1]))
    )


def summarise(partings: Iterable[Parting], planned: int) -> Divergence:
    """Sum up the matched pairs of a contrast.

    Args:
        partings: one per matched pair that could be compared.
        planned: matched pairs of the plan; bitwise equality is said only if all of them were compared.

    Returns:
        Divergence: ``growth`` covers distances that at least half of the differing pairs reach.
    """
    pairs = list(partings)
    firsts = [p.first for p in pairs if p.first is not None]
    equal = len(pairs) == planned > 0 and not firsts and all(p.complete for p in pairs)
    return Divergence(
        pairs=len(pairs),
        batches=sum(p.compared for p in pairs),
        differing=len(firsts),
        earliest=min(firsts, default=None),
        median=float(statistics.median(firsts)) if firsts else None,
        bitwise_equal=equal,
        growth=_growth([p for p in pairs if p.first is not None]),
    )


def _growth(pairs: Sequence[Parting]) -> tuple[tuple[int, float], ...]:
    """Median over pairs, step by step from each pair's own first differing batch."""
    steps: dict[int, list[float]] = {}
    for pair in pairs:
        for batch, difference in pair.growth:
            steps.setdefault(batch - (pair.first or 0), []).append(difference)
    return tuple(
        (offset, float(statistics.median(seen)))
        for offset, seen in sorted(steps.items())
        if 2 * len(seen) >= len(pairs)
    )


def _relative(a: float, b: float) -> float:
    largest = max(abs(a), abs(b))
    return abs(a - b) / largest if largest else 0.0
