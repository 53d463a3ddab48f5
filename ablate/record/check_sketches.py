"""Integrity of sketches: a trial that is done has each one that its plan promised, whole and once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow.compute as pc

from ablate.design.trial_spec import SketchPlan
from ablate.record.finding import Finding
from ablate.record.reader import Run
from ablate.record.sketch import WIDTH

_ADVICE = "restore the data set from a copy; without it a distance of parameters is not known, and no verdict changes"


def sketches(run: Run, trials: Mapping[str, Mapping[str, Any]]) -> Iterator[Finding]:
    """C11: a sketch is missing, there twice, of the wrong length, or holds a number that is not finite.

    What was promised is the plan that the trial itself recorded, since a grid's may change between launches; a resumed
    trial answers for its own batches only. A trial whose model the framework never saw promised nothing.
    """
    table = run.sketches(["trial_id", "batch_index", "values"])
    keys = list(zip(table["trial_id"].to_pylist(), table["batch_index"].to_pylist(), strict=True))
    for at, words in sorted(_wrong(table["values"].combine_chunks()).items()):
        yield Finding("C11", "error", f"trial {keys[at][0]}, batch {keys[at][1]}", f"its sketch {words}", _ADVICE)
    found: dict[str, set[int]] = defaultdict(set)
    for (trial_id, batch), count in Counter(keys).items():
        found[trial_id].add(batch)
        if count > 1:
            where = f"trial {trial_id}, batch {batch}"
            yield Finding("C11", "error", where, f"its sketch is there {count} times", _ADVICE)
    for trial_id, trial in trials.items():
        if lacking := sorted(_promised(trial) - found[trial_id]):
            where = f"trial {trial_id}, batch {lacking[0]}"
            yield Finding("C11", "error", where, f"{len(lacking)} promised sketches are missing", _ADVICE)


def _wrong(column: Any) -> dict[int, str]:
    """Return what is wrong with each row that is; a missing value is none, a parameter was not finite then."""
    finite = np.isfinite(column.flatten().to_numpy(zero_copy_only=False))
    owners = pc.list_parent_indices(column).to_numpy()
    wrong = {int(at): "holds a number that is not finite" for at in np.unique(owners[~finite])}
    lengths = pc.list_value_length(column).to_pylist()
    return wrong | {at: f"has {n} numbers, not {WIDTH}" for at, n in enumerate(lengths) if n is not None and n != WIDTH}


def _promised(trial: Mapping[str, Any]) -> set[int]:
    every = trial.get("sketch_every")
    if trial["status"] != "done" or every is None:
        return set()
    plan, batches = SketchPlan(every=every), trial["batches"]
    own = range(trial.get("resumed_at") or 0, batches)
    return {batch for batch in (-1, *own) if plan.covers(batch, batches)}
