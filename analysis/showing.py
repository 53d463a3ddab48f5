"""Which pictures belong side by side: those of every arm at one batch of one block, made from identical inputs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc

from ablate.errors import BadInput, Problem
from ablate.record.reader import Run
from analysis.cells import Cell, in_grid_order

PICTURES = ("image", "map")
Row = Mapping[str, Any]


class NothingToShow(BadInput):
    """The run has no pictures at all."""


@dataclass(frozen=True)
class Picture:
    """One artifact as recorded.

    Attributes:
        kind: ``image``, shown as it is, or ``map``, shown in colours.
        values: (N, C, H, W).
    """

    kind: str
    values: np.ndarray[Any, Any]

    def same(self, other: Picture) -> bool:
        """Say whether both are equal bit for bit."""
        return self.values.shape == other.values.shape and self.values.tobytes() == other.values.tobytes()


@dataclass(frozen=True)
class TrialPictures:
    """What one trial shows.

    Attributes:
        arm: its arm.
        cell: its levels.
        pictures: name -> picture, in the trainable's order.
    """

    arm: str
    cell: Cell
    pictures: Mapping[str, Picture]


@dataclass(frozen=True)
class Showing:
    """One batch of one block.

    Attributes:
        batch: the batch after which the pictures were made.
        block: the block.
        trials: by cell, then by arm, in the grid's order.
        lacking: arms that have pictures of other batches of this block only.
    """

    batch: int
    block: int
    trials: tuple[TrialPictures, ...]
    lacking: tuple[str, ...]


def showing(run: Run, batch: int | None = None, block: int | None = None) -> Showing:
    """Read the pictures of a batch.

    Args:
        run: the store.
        batch: the last one that every trial of the block has, if None.
        block: the one with the most trials that have pictures, the first of these, if None.

    Raises:
        NothingToShow: the run has no pictures.
        BadInput: none of that block or batch; the nearest is named.
        StoreError: a file is missing or damaged.
    """
    by_block: dict[int, list[Row]] = defaultdict(list)
    for row in _rows(run):
        by_block[row["block"]].append(row)
    block = _block(by_block, run.grid.blocks, block)
    batches: dict[str, set[int]] = defaultdict(set)
    for row in by_block[block]:
        batches[row["trial_id"]].add(row["batch_index"])
    batch = _batch(list(batches.values()), batch, f"block {block}")
    chosen = [row for row in by_block[block] if row["batch_index"] == batch]
    trials = tuple(_trial(run, rows) for rows in _by_trial(chosen))
    rank = {arm: place for place, arm in enumerate(run.grid.arms)}
    cells = in_grid_order((trial.cell for trial in trials), run.grid.factors)
    there = {trial.arm for trial in trials}
    return Showing(
        batch=batch,
        block=block,
        trials=tuple(sorted(trials, key=lambda t: (cells.index(t.cell), rank.get(t.arm, len(rank)), t.arm))),
        lacking=tuple(dict.fromkeys(row["arm"] for row in by_block[block] if row["arm"] not in there)),
    )


def _rows(run: Run) -> list[Row]:
    rows: list[Row] = run.artifacts(filter=pc.field("kind").isin(PICTURES)).to_pylist()
    if rows:
        return rows
    where = str(run.paths.root)
    kinds = Counter(run.artifacts(["kind"]).column(0).to_pylist())
    if kinds:
        found = f"has no images, only {', '.join(f'{count} of kind {kind}' for kind, count in sorted(kinds.items()))}"
        advice = "return Images from the trainable's look(model, place), or hand them to ctx.artifact"
        raise NothingToShow(Problem(where, found, advice=advice))
    if run.grid.artifacts:
        found = "has no artifacts yet: no trial that was to record them is done"
        advice = "`ablate status` shows how far it is; trials that were done before the grid asked for any have none"
        raise NothingToShow(Problem(where, found, advice=advice))
    advice = (
        "write `artifacts: {at: [0, last]}` into the grid and launch it into another folder (--runs): "
        "trials that are done are not run again"
    )
    raise NothingToShow(Problem(where, "has no artifacts, since its grid asks for none", advice=advice))


def _block(by_block: Mapping[int, Sequence[Row]], order: Sequence[int], asked: int | None) -> int:
    known = sorted(by_block, key=lambda block: (order.index(block) if block in order else len(order), block))
    if asked is None:
        return max(known, key=lambda block: len({row["trial_id"] for row in by_block[block]}))
    if asked not in by_block:
        raise BadInput(_unknown("block", asked, known, ""))
    return asked


def _batch(of_trials: Sequence[set[int]], asked: int | None, where: str) -> int:
    known = sorted(set().union(*of_trials))
    if asked is not None:
        if asked not in known:
            raise BadInput(_unknown("batch", asked, known, f" in {where}"))
        return asked
    common = set.intersection(*of_trials)
    return max(common) if common else max(known, key=lambda batch: (sum(batch in one for one in of_trials), batch))


def _unknown(what: str, asked: int, known: Sequence[int], where: str) -> Problem:
    close = min(known, key=lambda one: (abs(one - asked), one))
    return Problem(f"--{what} {asked}", f"has no pictures{where}", ", ".join(map(str, sorted(known))), str(close))


def _by_trial(rows: Sequence[Row]) -> list[list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["trial_id"]].append(row)
    return list(found.values())


def _trial(run: Run, rows: Sequence[Row]) -> TrialPictures:
    arrays: dict[str, Any] = {}
    for file in {row["file"] for row in rows}:
        arrays |= run.arrays(file)
    levels = [(name, rows[0][f"factor.{name}"]) for name in run.grid.factors]
    cell = tuple((name, level) for name, level in levels if level is not None)
    return TrialPictures(rows[0]["arm"], cell, {row["name"]: Picture(row["kind"], arrays[row["name"]]) for row in rows})
