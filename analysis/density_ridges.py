"""Spectral densities over training, smoothed on an axis that is logarithmic on both sides of 0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc

from ablate.record.reader import Run
from analysis.cells import Cell, cell_words
from analysis.probed import Probed, firsts, players
from analysis.saddle_course import groups

Array = np.ndarray[Any, np.dtype[np.float64]]
Measure = tuple[Array, Array]

WIDTH = 0.08
"""Standard deviation of the Gaussian that smooths, in decades of the axis: 0.08 is a factor of 1.2."""

POINTS = 800
MOST_RIDGES = 8
"""Snapshots that a panel has room for; of more, so many evenly spaced ones are taken, first and last among them."""


@dataclass(frozen=True)
class Ridge:
    """One snapshot of an arm: the mean over its trials of their smoothed densities.

    Attributes:
        batches: trained on.
        trials: averaged.
        height: share of eigenvalues per decade of the axis, shape (points,).
    """

    batches: int
    trials: int
    height: Array


@dataclass(frozen=True)
class Ridges:
    """One arm in one cell, as one player sees it.

    Attributes:
        arm: its name.
        cell: levels of the factors, in words.
        player: the player's name.
        ridges: by ascending batches.
        left_out: snapshots beyond ``MOST_RIDGES``.
        single: height of one eigenvalue of one trial at its peak: what is lower than this is no eigenvalue's.
    """

    arm: str
    cell: str
    player: str
    ridges: tuple[Ridge, ...]
    left_out: int
    single: float


@dataclass(frozen=True)
class Spectra:
    """All ridges on one axis.

    Attributes:
        linear: curvature up to which the axis is nearly linear: the smallest floor of all snapshots.
        axis: places, ascending, shape (points,): ``sign(x) log10(1 + |x| / linear)`` of the curvature x.
        arms: a panel each.
    """

    linear: float
    axis: Array
    arms: tuple[Ridges, ...]

    def place(self, curvature: float) -> float:
        """Return where a curvature stands on the axis."""
        return float(place(np.array([curvature]), self.linear)[0])


def place(curvature: Array, linear: float) -> Array:
    """Return ``sign(x) log10(1 + |x| / linear)``, shape (n,)."""
    placed: Array = np.sign(curvature) * np.log10(1 + np.abs(curvature) / linear)
    return placed


def unplace(places: Array, linear: float) -> Array:
    """Return the curvatures that stand at these places, shape (n,)."""
    curvature: Array = np.sign(places) * linear * (10 ** np.abs(places) - 1)
    return curvature


def smooth(measure: Measure, axis: Array, linear: float) -> Array:
    """Return a measure's density per decade of the axis, smoothed by a Gaussian; shape (points,).

    Args:
        measure: eigenvalues and their weights, shape (m,) each; the weights sum to 1.
        axis: where, shape (points,).
        linear: see ``Spectra``.
    """
    nodes, weights = measure
    apart = (axis[:, None] - place(nodes, linear)[None, :]) / WIDTH
    found: Array = (np.exp(-(apart**2) / 2) @ weights) / (WIDTH * np.sqrt(2 * np.pi))
    return found


def density_ridges(
    run: Run, probed: Sequence[Probed], arms: Sequence[str], factors: Mapping[str, Sequence[object]]
) -> Spectra | None:
    """Return the densities of a run; None if it has none.

    Args:
        run: the store.
        probed: its snapshots.
        arms: in the grid's order.
        factors: the grid's.
    """
    measures = _measures(run)
    if not measures:
        return None
    floors = [floor.value for floor in firsts(probed, "floor") if floor.value > 0]
    everything = np.concatenate([nodes for own in measures.values() for nodes, _ in own])
    linear = min(floors) if floors else 1e-3 * float(np.abs(everything).max()) or 1.0
    ends = place(np.array([min(everything.min(), 0.0), max(everything.max(), 0.0)]), linear)
    axis = np.linspace(ends[0] - 5 * WIDTH, ends[1] + 5 * WIDTH, POINTS)
    panels = []
    for player in players(probed):
        for arm, cell in groups(probed, arms, factors):
            own = [one for one in probed if (one.player, one.arm, one.cell) == (player, arm, cell)]
            if found := _panel(own, arm, cell, player, measures, axis, linear):
                panels.append(found)
    return Spectra(linear, axis, tuple(panels))


def evenly(count: int, most: int) -> list[int]:
    """Return at most so many of ``range(count)``, evenly spaced, first and last among them."""
    return [int(at) for at in np.unique(np.linspace(0, count - 1, min(count, most)).round())]


def _panel(
    own: Sequence[Probed],
    arm: str,
    cell: Cell,
    player: str,
    measures: Mapping[tuple[str, int, str], list[Measure]],
    axis: Array,
    linear: float,
) -> Ridges | None:
    with_density = [one for one in own if (one.trial_id, one.batches, one.player) in measures]
    stages = sorted({one.batches for one in with_density})
    if not stages:
        return None
    at = evenly(len(stages), MOST_RIDGES)
    ridges = []
    for batches in (stages[i] for i in at):
        here = [one for one in with_density if one.batches == batches]
        heights = [
            np.mean([smooth(one, axis, linear) for one in measures[trial.trial_id, batches, player]], axis=0)
            for trial in here
        ]
        ridges.append(Ridge(batches, len(here), np.mean(heights, axis=0)))
    sizes = [size.value for size in firsts(with_density, "dimension")]
    trials = max(ridge.trials for ridge in ridges)
    single = 1 / (max(sizes, default=1.0) * trials * WIDTH * np.sqrt(2 * np.pi))
    return Ridges(arm, cell_words(cell), player, tuple(ridges), len(stages) - len(at), float(single))


def _measures(run: Run) -> dict[tuple[str, int, str], list[Measure]]:
    """Return the densities by trial, batches and player: one for each random start."""
    columns = ["trial_id", "batches", "player", "points", "masses"]
    found: dict[tuple[str, int, str], list[Measure]] = {}
    for row in run.probes(columns, pc.field("name") == "density").to_pylist():
        nodes, weights = (np.array(row[name] or [], dtype=np.float64) for name in ("points", "masses"))
        if len(nodes) and len(nodes) == len(weights) and np.isfinite([*nodes, *weights]).all():
            found.setdefault((row["trial_id"], row["batches"], row["player"]), []).append((nodes, weights))
    return found
