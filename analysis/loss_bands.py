"""The middle and the band of each arm's losses over its blocks, batch by batch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ablate.design.cross import trials as planned_trials
from ablate.record.reader import Run
from analysis.cells import Cell, in_grid_order
from analysis.decimate import POINTS, decimate

Array = np.ndarray[Any, np.dtype[np.float64]]
Index = np.ndarray[Any, np.dtype[np.int64]]

ENOUGH = 20
"""Blocks from which on a band is the middle 90 %; with fewer it is everything, smallest to largest."""


@dataclass(frozen=True)
class Band:
    """Losses of one arm in one cell of the factors. The unit is the block: the band speaks of new seeds.

    Attributes:
        arm: the arm's name.
        cell: levels of the factors.
        blocks: trials with at least one batch.
        short: trials with fewer batches than planned; from there on the band is over the others.
        batch: ascending, shape (points,).
        middle: median over blocks, shape (points,).
        low: lower edge, shape (points,).
        high: upper edge, shape (points,).
        whole: whether the band is smallest to largest; else it is the middle 90 %.
    """

    arm: str
    cell: Cell
    blocks: int
    short: int
    batch: Index
    middle: Array
    low: Array
    high: Array
    whole: bool


def loss_bands(run: Run, points: int = POINTS) -> tuple[Band, ...]:
    """Return a band for each arm and cell with any loss, in the grid's order; one of them is in memory at a time.

    Args:
        run: the store.
        points: a longer curve is thinned to so many, its extremes kept.
    """
    trials: dict[tuple[str, Cell], list[str]] = defaultdict(list)
    for trial in planned_trials(run.grid):
        trials[trial.arm, tuple(trial.factors.items())].append(trial.trial_id)
    ordered = [
        (arm, cell)
        for arm in run.grid.arms
        for cell in in_grid_order((cell for own, cell in trials if own == arm), run.grid.factors)
    ]
    bands = []
    columns = ["batch_index", "loss"]
    for key, found in zip(ordered, run.batches_of((trials[key] for key in ordered), columns), strict=True):
        own = [found[trial] for trial in trials[key] if trial in found]
        if own and (band := _band(*key, _losses(own, run.grid.batches), points)) is not None:
            bands.append(band)
    return tuple(bands)


def _losses(tables: Sequence[pa.Table], batches: int) -> Array:
    """Return trials' losses by batch, NaN where there is none or it is not finite; shape (trials, batches)."""
    losses = np.full((len(tables), batches), np.nan)
    for row, table in zip(losses, tables, strict=True):
        at, found = table["batch_index"].to_numpy(), table["loss"].to_numpy()
        inside = at < batches
        row[at[inside]] = found[inside]
    losses[np.isinf(losses)] = np.nan
    return losses


def _band(arm: str, cell: Cell, losses: Array, points: int) -> Band | None:
    """Sum up the trials of one arm and cell, shape (blocks, batches)."""
    known = np.isfinite(losses)
    seen = known.any(axis=0)
    batch = np.flatnonzero(seen)
    if not len(batch):
        return None
    here = losses if seen.all() else losses[:, seen]
    blocks = int(known.any(axis=1).sum())
    whole = blocks < ENOUGH
    low, middle, high = quantiles(here, (0.0 if whole else 0.05, 0.5, 1.0 if whole else 0.95))
    short = int((known.sum(axis=1) < losses.shape[1]).sum())
    return Band(arm, cell, blocks, short, *decimate(batch, middle, low, high, points), whole)


def quantiles(values: Array, shares: Sequence[float]) -> list[Array]:
    """Return quantiles over the first axis of what is no NaN, as ``np.nanquantile`` has them, from one sort.

    Args:
        values: shape (n, m), finite or NaN, with at least one finite value in each column.
        shares: between 0 and 1.

    Returns:
        list[Array]: for each share the quantiles, shape (m,).
    """
    ordered = np.sort(values, axis=0)  # NaN comes last; numpy sorts in vector registers, but selects one by one
    last = np.count_nonzero(~np.isnan(values), axis=0) - 1
    found = []
    for share in shares:
        place = share * last
        below = np.floor(place).astype(np.int64)
        part = place - below
        low, high = (np.take_along_axis(ordered, at[None], axis=0)[0] for at in (below, np.minimum(below + 1, last)))
        with np.errstate(over="ignore", invalid="ignore"):  # losses that have diverged can be further apart than that
            step = high - low
            found.append(np.where(part < 0.5, low + step * part, high - step * (1 - part)))  # exact at both ends
    return found
