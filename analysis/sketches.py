"""One trial's sketches of its parameters, read from Parquet; what a sketch is worth is in ``ablate.record.sketch``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc

from ablate.record.reader import Run
from ablate.record.sketch import WIDTH

Array = np.ndarray[Any, np.dtype[np.float64]]
Index = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Trail:
    """Where a trial's parameters were.

    Attributes:
        batch_index: ascending, shape (sketches,); -1 is before the first batch.
        values: sketches of the parameters after those batches, shape (sketches, 256).
        parameters: how many numbers were sketched.
    """

    batch_index: Index
    values: Array
    parameters: int


def read_sketches(run: Run, block: int) -> dict[str, Trail]:
    """Return the sketches of every trial of one block, by trial id; those that were not finite are left out."""
    table = run.sketches(["trial_id", "batch_index", "parameters", "values"], pc.field("block") == block)
    table = table.filter(pc.equal(pc.list_value_length(table["values"]), WIDTH))  # drops nulls too
    if not table.num_rows:
        return {}
    values = table["values"].combine_chunks().flatten().to_numpy().reshape(-1, WIDTH)
    batches, sizes = table["batch_index"].to_numpy(), table["parameters"].to_numpy()
    owners = np.array(table["trial_id"].to_pylist())
    trails = {}
    for trial_id in dict.fromkeys(owners.tolist()):
        rows = np.flatnonzero(owners == trial_id)
        index, first = np.unique(batches[rows], return_index=True)
        trails[trial_id] = Trail(index, values[rows[first]], int(sizes[rows[0]]))
    return trails
