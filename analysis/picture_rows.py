"""Turns pictures into rows to be drawn: what all arms share once on top, then every arm's own under its name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis.cells import Cell, cell_words
from analysis.showing import Picture, TrialPictures

MOST_COLUMNS = 10
SHARED = "every arm"


@dataclass(frozen=True)
class PictureRow:
    """One row of pictures.

    Attributes:
        arm: whose; ``SHARED`` if it is the same in every arm.
        name: what it shows.
        picture: the images, one a column.
    """

    arm: str
    name: str
    picture: Picture


@dataclass(frozen=True)
class Group:
    """The rows of one cell.

    Attributes:
        title: its levels in words; empty without factors.
        rows: in order; rows of one arm are together.
    """

    title: str
    rows: tuple[PictureRow, ...]


def groups(trials: Sequence[TrialPictures]) -> list[Group]:
    """Return a group for each cell."""
    cells: dict[Cell, list[TrialPictures]] = {}
    for trial in trials:
        cells.setdefault(trial.cell, []).append(trial)
    return [Group(cell_words(cell), tuple(_rows(members))) for cell, members in cells.items()]


def _rows(trials: Sequence[TrialPictures]) -> list[PictureRow]:
    shared = _shared(trials)
    top = [PictureRow(SHARED, name, trials[0].pictures[name]) for name in shared]
    own = [
        PictureRow(trial.arm, name, picture)
        for trial in trials
        for name, picture in trial.pictures.items()
        if name not in shared
    ]
    return top + own


def _shared(trials: Sequence[TrialPictures]) -> list[str]:
    """Return the names whose pictures are equal in all trials; none if all are, or there would be no arm to see."""
    first, *others = trials
    if not others:
        return []
    same = [
        name
        for name, picture in first.pictures.items()
        if all(name in one.pictures and picture.same(one.pictures[name]) for one in others)
    ]
    names = {name for one in trials for name in one.pictures}
    return same if len(same) < len(names) else []


def scales(rows: Sequence[PictureRow]) -> dict[str, float]:
    """Return for each map the value drawn brightest: all but the largest 0.5 % of its pixels in all arms are below."""
    found: dict[str, list[np.ndarray[Any, Any]]] = {}
    for row in rows:
        if row.picture.kind == "map":
            values = row.picture.values.astype(np.float64).ravel()
            found.setdefault(row.name, []).append(values[np.isfinite(values)])
    tops = {name: np.concatenate(parts) for name, parts in found.items()}
    return {
        name: float(np.quantile(all_, 0.995)) if all_.size and all_.max() > 0 else 1.0 for name, all_ in tops.items()
    }
