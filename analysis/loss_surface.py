"""The loss on the plane through a snapshot along its extreme eigenvectors, and where other snapshots project to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc

from ablate.design.cross import trials as planned_trials
from ablate.record.reader import Run
from analysis.probed import Probed

Row = Mapping[str, Any]
Array = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Trajectory:
    """A trial on a surface's plane.

    Attributes:
        arm: its arm.
        trial_id: its id.
        batches: ascending, shape (n,).
        along_top: coordinate along the eigenvector of the largest eigenvalue, shape (n,).
        along_bottom: along that of the smallest, shape (n,).
        losses: at the snapshots themselves, not at their projections, shape (n,); NaN where it is not known.
    """

    arm: str
    trial_id: str
    batches: Array
    along_top: Array
    along_bottom: Array
    losses: Array


@dataclass(frozen=True)
class Surface:
    """One surface.

    Attributes:
        arm: arm of the snapshot in its centre.
        block: its block.
        batches: trained on before it.
        player: whose loss.
        along_top: first coordinates, ascending, shape (x,).
        along_bottom: second coordinates, ascending, shape (y,).
        losses: shape (y, x); NaN where it is not finite.
        top: the eigenvalue along the first axis; None if not recorded.
        bottom: along the second.
        trajectories: trials projected on it, by the grid's order.
    """

    arm: str
    block: int
    batches: int
    player: str
    along_top: Array
    along_bottom: Array
    losses: Array
    top: float | None
    bottom: float | None
    trajectories: tuple[Trajectory, ...]


def surfaces(run: Run, probed: Sequence[Probed], arms: Sequence[str]) -> tuple[Surface, ...]:
    """Return every surface of a run, by block.

    Args:
        run: the store.
        probed: its snapshots.
        arms: in the grid's order.
    """
    names = ["surface", "projection", "projection_loss"]
    columns = ["trial_id", "arm", "block", "batches", "player", "name", "position", "value", "text", "points", "masses"]
    by_centre: dict[tuple[str, int, str], list[Row]] = {}
    for row in run.probes(columns, pc.field("name").isin(names)).to_pylist():
        by_centre.setdefault((row["trial_id"], row["batches"], row["player"]), []).append(row)
    owners = {trial.trial_id: trial.arm for trial in planned_trials(run.grid)}
    made = [_surface(rows, probed, arms, owners) for rows in by_centre.values()]
    return tuple(sorted(filter(None, made), key=lambda one: (one.block, one.player)))


def _surface(
    rows: Sequence[Row], probed: Sequence[Probed], arms: Sequence[str], owners: Mapping[str, str]
) -> Surface | None:
    """Make a surface of the rows of its centre's probe; None if they hold projections only."""
    lines = sorted((row for row in rows if row["name"] == "surface"), key=lambda row: float(row["value"]))
    if not lines:
        return None
    first = lines[0]
    key = (first["trial_id"], first["batches"], first["player"])
    own = next((one for one in probed if (one.trial_id, one.batches, one.player) == key), None)
    top, bottom = (own.first(name) if own else None for name in ("lambda_max", "lambda_min"))
    found = sorted(_trajectories(rows, owners), key=lambda one: (arms.index(one.arm), one.trial_id))
    losses = np.array([row["masses"] for row in lines], dtype=np.float64)
    return Surface(
        arm=first["arm"],
        block=first["block"],
        batches=first["batches"],
        player=first["player"],
        along_top=np.array(first["points"], dtype=np.float64),
        along_bottom=np.array([row["value"] for row in lines], dtype=np.float64),
        losses=np.where(np.isfinite(losses), losses, np.nan),
        top=top.value if top else None,
        bottom=bottom.value if bottom else None,
        trajectories=tuple(found),
    )


def _trajectories(rows: Sequence[Row], owners: Mapping[str, str]) -> list[Trajectory]:
    """Return the ways of the projected trials; ``text`` names the projected snapshot, ``trial_id@batches``."""
    places: dict[str, dict[int, dict[tuple[str, int], float]]] = {}
    for row in rows:
        trial_id, _, batches = str(row["text"] or "").partition("@")
        if row["name"] != "surface" and row["value"] is not None and trial_id in owners:
            here = places.setdefault(trial_id, {}).setdefault(int(batches), {})
            here[row["name"], row["position"] or 0] = row["value"]
    found = []
    for trial_id, stages in places.items():
        known = sorted(at for at, here in stages.items() if ("projection", 0) in here and ("projection", 1) in here)
        if known:
            x, y, losses = (
                np.array([stages[at].get(what, np.nan) for at in known])
                for what in (("projection", 0), ("projection", 1), ("projection_loss", 0))
            )
            found.append(Trajectory(owners[trial_id], trial_id, np.array(known, dtype=np.float64), x, y, losses))
    return found
