"""One trial's sketches of its parameters, read from Parquet; what a sketch is worth is in ``ablate.record.sketch``."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
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


def read_sketches(run: Run, groups: Iterable[Collection[str]]) -> Iterator[dict[str, Trail]]:
    """Yield the sketches of one group of trials after the other, by trial id; what was not finite is left out.

    Args:
        run: the store.
        groups: ids of the trials in each; few groups are in memory at a time.
    """
    for found in run.sketches_of(groups, ["batch_index", "parameters", "values"]):
        trails = ((trial_id, _trail(table)) for trial_id, table in found.items())
        yield {trial_id: trail for trial_id, trail in trails if trail is not None}


def _trail(table: pa.Table) -> Trail | None:
    table = table.filter(pc.equal(pc.list_value_length(table["values"]), WIDTH))  # drops nulls too
    if not table.num_rows:
        return None
    values = table["values"].combine_chunks().flatten().to_numpy().reshape(-1, WIDTH)
    index, first = np.unique(table["batch_index"].to_numpy(), return_index=True)
    return Trail(index, values[first], table["parameters"][0].as_py())
