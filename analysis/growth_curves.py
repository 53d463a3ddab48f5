"""How far matched losses lie apart, against the batches since they first differ: rounding grows, a fault jumps."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from ablate.record.reader import Run
from analysis.controls import Control, all_contrasts, contrast_control
from analysis.divergence import Trace, same_bits, shared
from analysis.pairing import Match, Sides, by_block, matching
from analysis.run_data import read_blocks, read_trials
from analysis.trials import Trial

Array = np.ndarray[Any, np.dtype[np.float64]]

PER_DECADE = 8
"""Bins of the batches, even on a logarithmic scale."""


@dataclass(frozen=True)
class Growth:
    """Relative loss differences of one contrast, the median over its pairs of trials and their whole range.

    Attributes:
        label: the contrast.
        control: kind of control contrast; None for one of the study's own.
        pairs: matched pairs that differ.
        equal: matched pairs that never do.
        batches: batches since the first differing one, which is 1; middle of each bin, shape (bins,).
        middle: median over pairs of the relative difference, shape (bins,); 0 where most are equal again.
        low: smallest over pairs, shape (bins,).
        high: largest over pairs, shape (bins,).
    """

    label: str
    control: Control | None
    pairs: int
    equal: int
    batches: Array
    middle: Array
    low: Array
    high: Array


def growth_curves(run: Run, trials: Sequence[Trial] | None = None) -> tuple[Growth, ...]:
    """Return a curve for each contrast of the run; one block is in memory at a time.

    Args:
        run: the store.
        trials: every planned trial; None reads them.
    """
    trials = read_trials(run)[0] if trials is None else trials
    contrasts = all_contrasts(run.grid)
    matches = [by_block(matching(trials, Sides.of(contrast, run.grid)).matches) for contrast in contrasts]
    edges = bin_edges(run.grid.batches)
    found: list[list[Array | None]] = [[] for _ in contrasts]
    for rows in read_blocks(run, trials):
        for curves, own in zip(found, matches, strict=True):
            of_block = own.get(rows.block, ())
            curves += [_of(match, rows.traces, edges) for match in of_block if _both(match, rows.traces)]
    return tuple(
        _growth(contrast.label, contrast_control(contrast, run.grid), curves, edges)
        for contrast, curves in zip(contrasts, found, strict=True)
    )


def bin_edges(batches: int) -> Array:
    """Return whole bin edges from 1 on, at most ``PER_DECADE`` to a factor of 10; the last is beyond the end."""
    steps = int(np.ceil(np.log10(max(batches, 2)) * PER_DECADE)) + 1
    whole = np.unique(np.floor(10 ** (np.arange(steps + 1) / PER_DECADE)).astype(np.int64))
    return np.r_[whole[whole <= batches], batches + 1].astype(np.float64)


def binned_difference(reference: Trace, other: Trace, edges: Array) -> Array | None:
    """Return the median relative difference in each bin of batches since the first differing one.

    Args:
        reference: losses of the reference.
        other: losses of the other side.
        edges: bin edges, shape (bins + 1,); the first differing batch counts as 1.

    Returns:
        Array: shape (bins,), NaN where the pair has no finite losses; None if the two never differ.
    """
    _, a, b = shared(reference, other)
    unequal = np.flatnonzero(~same_bits(a, b))
    if not len(unequal):
        return None
    a, b = a[unequal[0] :], b[unequal[0] :]
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        largest = np.maximum(np.abs(a), np.abs(b))
        relative = np.where(largest == 0, 0.0, np.abs(a / largest - b / largest))
    known = bool(np.isfinite(relative).all())
    bounds = np.maximum(np.ceil(edges).astype(np.int64) - 1, 0).tolist()  # the first differing batch counts as 1
    middles = [_median(relative[low:high], known) for low, high in pairwise(bounds)]
    return np.array(middles)


def _median(values: Array, known: bool) -> float:
    """Return the median of what is finite, as ``np.median`` has it, which takes ten times as long for a few numbers.

    Args:
        values: shape (n,); sorted in place, if all are finite.
        known: whether all are.
    """
    if not known:
        values = values[np.isfinite(values)]
    if not len(values):
        return math.nan
    values.sort()
    at = len(values) // 2
    return float(values[at]) if len(values) % 2 else (float(values[at - 1]) + float(values[at])) / 2


def _both(match: Match, traces: Mapping[str, Trace]) -> bool:
    return match.reference.trial_id in traces and match.other.trial_id in traces


def _of(match: Match, traces: Mapping[str, Trace], edges: Array) -> Array | None:
    return binned_difference(traces[match.reference.trial_id], traces[match.other.trial_id], edges)


def _growth(label: str, control: Control | None, curves: Sequence[Array | None], edges: Array) -> Growth:
    known = [curve for curve in curves if curve is not None]
    stacked = np.stack(known) if known else np.full((1, len(edges) - 1), np.nan)
    reached = 2 * np.isfinite(stacked).sum(axis=0) >= max(len(known), 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a bin that no pair reaches is dropped below
        low, middle, high = np.nanquantile(stacked, [0, 0.5, 1], axis=0)
    centres = np.sqrt(edges[:-1] * np.maximum(edges[1:] - 1, edges[:-1]))
    return Growth(
        label, control, len(known), len(curves) - len(known), *(x[reached] for x in (centres, middle, low, high))
    )
