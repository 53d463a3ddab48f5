"""How long the trials of a run took, batch by batch."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ablate.design.pace import TimedTrial
from ablate.errors import BadInput, Problem
from ablate.record.reader import Run


def timed_trials(run: Run) -> list[TimedTrial]:
    """Return the time of every trial that ran to its end.

    Raises:
        BadInput: if there is none.
        StoreError: if the run cannot be read.
    """
    guard = run.grid.guard
    names = list(run.grid.factors)
    rows = {row["trial_id"]: row for row in run.trials().to_pylist() if row["status"] == "done"}
    table = run.batches(["trial_id", "duration_s"])
    codes = table["trial_id"].combine_chunks().dictionary_encode()
    keys = np.asarray(codes.indices)
    order = np.argsort(keys, kind="stable")  # a trial's rows ascend by batch already
    durations = table["duration_s"].combine_chunks().to_numpy(zero_copy_only=False)[order]
    parts = np.split(durations, np.flatnonzero(np.diff(keys[order])) + 1)
    timed = []
    for trial_id, mine in zip(codes.dictionary.take(pa.array(np.unique(keys))).to_pylist(), parts, strict=False):
        row = rows.get(trial_id)
        if row is not None and len(mine) and np.isfinite(mine).all():
            levels = {name: row[f"factor.{name}"] for name in names if row[f"factor.{name}"] is not None}
            timed.append(TimedTrial(row["arm"], levels, mine.astype(float).tolist(), row["wall_s"], guard))
    if not timed:
        advice = "wait for one, or use --measure"
        raise BadInput(Problem(str(run.paths.root), "no trial of this run has ended, so none was timed", advice=advice))
    return timed
