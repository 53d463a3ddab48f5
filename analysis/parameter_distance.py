"""When and how fast the parameters of matched trials part, estimated from sketches; no checkpoint is needed.

Distances are given relative to how far the reference has come from its initial weights by the same batch: at 1 the two
are as far from each other as training has moved the reference at all.
"""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ablate.record.reader import Run
from ablate.record.sketch import distance, rounding_floor
from analysis.pairing import Match, by_block
from analysis.sketches import Trail, read_sketches

Array = np.ndarray[Any, np.dtype[np.float64]]
Index = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class PairDistance:
    """How far one matched pair of trials is apart.

    Attributes:
        batch_index: batches after which both were sketched, ascending, shape (n,); -1 is before the first.
        apart: estimated distance between the two, shape (n,).
        moved: estimated distance of the reference from its initial weights, shape (n,).
        floor: what rounding of the sketches alone could make of no distance, shape (n,).
    """

    batch_index: Index
    apart: Array
    moved: Array
    floor: Array

    @property
    def parted(self) -> int | None:
        """First batch after which they are apart by more than the floor; None if they never are."""
        above = np.flatnonzero(self.apart > self.floor)
        return int(self.batch_index[above[0]]) if len(above) else None

    def relative(self, what: Array) -> Array:
        """Return ``what`` over the distance that the reference has come, shape (n,); NaN where it has not moved."""
        found: Array = np.divide(what, self.moved, out=np.full(len(what), np.nan), where=self.moved > self.floor)
        return found


@dataclass(frozen=True)
class ParametersApart:
    """How far the parameters of a contrast's sides are apart, over its matched pairs; plain numbers.

    Attributes:
        pairs: matched pairs that were sketched on both sides.
        other_shapes: pairs whose sides have another number of parameters, between which there is no distance.
        sketches: sketches compared, summed over pairs.
        differing: pairs that are apart by more than the floor after some batch, or before the first.
        zero: whether every distance is exactly 0.
        from_start: whether most of the differing pairs have other initial weights.
        first: median over differing pairs of the first batch after which they are apart; None if none is.
        at_first: median over differing pairs of the relative distance there; None if the reference has not moved.
        last: last batch that at least half of the pairs have; None without any.
        at_last: median relative distance there, over differing pairs, or over all if none differs.
        floor: median of the relative floor there.
    """

    pairs: int
    other_shapes: int
    sketches: int
    differing: int
    zero: bool
    from_start: bool
    first: int | None
    at_first: float | None
    last: int | None
    at_last: float | None
    floor: float | None


@dataclass(frozen=True)
class DistanceCurve:
    """Relative distances of one contrast after each sketched batch, shape (batches,) each.

    Attributes:
        batches: batches trained, ascending from 1.
        middle: median over pairs.
        low: smallest over pairs.
        high: largest over pairs.
        floor: median of what rounding of the sketches alone could show.
    """

    batches: Index
    middle: Array
    low: Array
    high: Array
    floor: Array


def pair_distances(run: Run, matches: Sequence[Sequence[Match]]) -> list[tuple[list[PairDistance], int]]:
    """Compare the sketches of matched trials; one block is in memory at a time.

    Args:
        run: the store.
        matches: of each contrast.

    Returns:
        For each contrast its pairs, and how many more have sides of other shapes. Trials without sketches are no pair.
    """
    found: list[tuple[list[PairDistance], int]] = [([], 0) for _ in matches]
    of_block = [by_block(own) for own in matches]
    blocks = dict.fromkeys(block for own in of_block for block in own)
    trials = [_trials(own.get(block, ()) for own in of_block) for block in blocks]
    for block, trails in zip(blocks, read_sketches(run, trials), strict=True):
        for at, own in enumerate(of_block):
            for match in own.get(block, ()):
                mine, theirs = trails.get(match.reference.trial_id), trails.get(match.other.trial_id)
                if mine is None or theirs is None or mine.batch_index[0] != -1:
                    continue
                pairs, other_shapes = found[at]
                if mine.parameters == theirs.parameters:
                    pairs.append(compare(mine, theirs))
                else:
                    found[at] = (pairs, other_shapes + 1)
    return found


def _trials(matches: Iterable[Iterable[Match]]) -> list[str]:
    """Return the ids of all trials in some contrasts' matches, each once."""
    pairs = ((match.reference.trial_id, match.other.trial_id) for own in matches for match in own)
    return list(dict.fromkeys(trial_id for pair in pairs for trial_id in pair))


def compare(reference: Trail, other: Trail) -> PairDistance:
    """Compare two trials after the batches that both have.

    Args:
        reference: it has its initial weights first.
        other: a trial with as many parameters.
    """
    common, a, b = np.intersect1d(reference.batch_index, other.batch_index, assume_unique=True, return_indices=True)
    mine, theirs, start = reference.values[a], other.values[b], reference.values[0]
    floor = rounding_floor(mine, theirs, reference.parameters)
    return PairDistance(common, distance(mine, theirs), distance(mine, start), floor)


def summarise(pairs: Sequence[PairDistance], other_shapes: int) -> ParametersApart | None:
    """Sum up the pairs of a contrast; None if no two trials were sketched."""
    if not pairs and not other_shapes:
        return None
    parted = [pair for pair in pairs if pair.parted is not None]
    starts = [pair.parted == -1 for pair in parted]
    batches = [batch for pair in parted if (batch := _after_start(pair)) is not None]
    first = statistics.median_low(batches) if batches else None
    last = _last(pairs)
    return ParametersApart(
        pairs=len(pairs),
        other_shapes=other_shapes,
        sketches=sum(len(pair.batch_index) for pair in pairs),
        differing=len(parted),
        zero=all(not pair.apart.any() for pair in pairs),
        from_start=2 * sum(starts) > len(starts),
        first=first,
        at_first=_median(parted, first, lambda pair: pair.relative(pair.apart)),
        last=last,
        at_last=_median(parted or pairs, last, lambda pair: pair.relative(pair.apart)),
        floor=_median(pairs, last, lambda pair: pair.relative(pair.floor)),
    )


def curve(pairs: Sequence[PairDistance]) -> DistanceCurve:
    """Return median and range over pairs after each batch that at least half of them have."""
    batches = np.unique(np.concatenate([pair.batch_index for pair in pairs])) if pairs else np.empty(0, np.int64)
    apart, floor = (np.full((len(pairs), len(batches)), np.nan) for _ in range(2))
    for at, pair in enumerate(pairs):
        places = np.searchsorted(batches, pair.batch_index)
        apart[at, places], floor[at, places] = pair.relative(pair.apart), pair.relative(pair.floor)
    reached = 2 * np.isfinite(apart).sum(axis=0) >= max(len(pairs), 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a batch that no pair reaches is dropped below
        low, middle, high = np.nanquantile(apart, [0, 0.5, 1], axis=0) if pairs else np.empty((3, 0))
        floors = np.nanmedian(floor, axis=0) if pairs else np.empty(0)
    return DistanceCurve(batches[reached] + 1, middle[reached], low[reached], high[reached], floors[reached])


def _after_start(pair: PairDistance) -> int | None:
    """Return the first batch, not counting the initial weights, after which a pair is apart."""
    above = pair.batch_index[(pair.apart > pair.floor) & (pair.batch_index >= 0)]
    return int(above[0]) if len(above) else None


def _last(pairs: Sequence[PairDistance]) -> int | None:
    ends = sorted(int(pair.batch_index[-1]) for pair in pairs if pair.batch_index[-1] >= 0)
    return ends[len(ends) // 2] if ends else None


def _median(pairs: Sequence[PairDistance], batch: int | None, of: Callable[[PairDistance], Array]) -> float | None:
    """Return the median over pairs of a relative distance after ``batch``; None if no pair has one there."""
    found = [value for pair in pairs for value in of(pair)[pair.batch_index == batch].tolist() if np.isfinite(value)]
    return float(statistics.median(found)) if found else None
