"""The middle and the band of each arm's losses over its blocks, batch by batch."""

from __future__ import annotations

import warnings
from collections import defaultdict
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
        own = [_curve(found[trial], run.grid.batches) for trial in trials[key] if trial in found]
        if own and (band := _band(*key, np.stack(own), points)) is not None:
            bands.append(band)
    return tuple(bands)


def _curve(table: pa.Table, batches: int) -> Array:
    """Return a trial's losses by batch, NaN where there is none or it is not finite; shape (batches,)."""
    losses = np.full(batches, np.nan)
    at, found = table["batch_index"].to_numpy(), table["loss"].to_numpy()
    inside = at < batches
    losses[at[inside]] = np.where(np.isfinite(found), found, np.nan)[inside]
    return losses


def _band(arm: str, cell: Cell, losses: Array, points: int) -> Band | None:
    """Sum up the trials of one arm and cell, shape (blocks, batches)."""
    known = np.isfinite(losses)
    seen = known.any(axis=0)
    batch = np.flatnonzero(seen)
    if not len(batch):
        return None
    here = losses[:, seen]
    blocks = int(known.any(axis=1).sum())
    whole = blocks < ENOUGH
    quantile = np.quantile if known.all() else np.nanquantile  # which looks at each batch by itself, and is slow
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # means of infinities do not occur: all is finite or NaN
        low, middle, high = quantile(here, [0.0 if whole else 0.05, 0.5, 1.0 if whole else 0.95], axis=0)
    short = int((known.sum(axis=1) < losses.shape[1]).sum())
    return Band(arm, cell, blocks, short, *decimate(batch, middle, low, high, points), whole)
