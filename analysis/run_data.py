"""Reads from a run what the gap analysis needs, in as few and as small reads as it can."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ablate.design.cross import trials as planned_trials
from ablate.errors import BadInput, Problem, nearest
from ablate.record.reader import Run
from analysis.audit_row import SAVED, AuditRow
from analysis.confounding import Hashes
from analysis.divergence import Trace
from analysis.folded_audits import COLUMNS, QUIET_COLUMNS, audit_rows
from analysis.outcomes import Outcome, evaluated_outcomes, window_outcomes
from analysis.trials import Trial, join


def read_trials(run: Run) -> tuple[tuple[Trial, ...], pa.Table]:
    """Return every planned trial with what came of it, and the ``trials`` table."""
    recorded = run.trials()
    return join(planned_trials(run.grid), recorded), recorded


def read_outcomes(run: Run, trials: tuple[Trial, ...], recorded: pa.Table) -> dict[str, Outcome]:
    """Return each trial's outcome, reading the outcome's window of batches only.

    Raises:
        BadInput: no trial recorded the metric, or the held-out value, that the grid calls the outcome.
    """
    outcome = run.grid.outcome
    if outcome.evaluate is not None:
        column = f"evaluate.{outcome.evaluate}"
        if not _has(column, recorded.column_names, any(t.status == "done" for t in trials), "evaluate."):
            return {trial.trial_id: Outcome(None, trial.trouble or f"{column} was not recorded") for trial in trials}
        values = dict(zip(recorded["trial_id"].to_pylist(), recorded[column].to_pylist(), strict=True))
        return evaluated_outcomes(trials, values, column)
    metric = outcome.metric if outcome.metric == "loss" else f"metric.{outcome.metric}"
    last = min(outcome.last, run.grid.batches)
    finished = any(trial.status == "done" for trial in trials)
    if finished and not run.parts(run.paths.batches):  # deleted: then nothing says which metrics there were
        return {trial.trial_id: Outcome(None, trial.trouble or "its batches are not in the store") for trial in trials}
    if not finished or not _has(metric, run.columns(), finished, "metric."):
        return {trial.trial_id: Outcome(None, trial.trouble or f"no {metric} was recorded") for trial in trials}
    return window_outcomes(trials, _windows(run, trials, metric, last), metric, last)


def _windows(run: Run, trials: Sequence[Trial], metric: str, last: int) -> dict[str, list[float | None]]:
    """Return each trial's values of the outcome's window, which can only be among its ``last`` rows."""
    windows = {}
    for found in run.batches_of(([trial.trial_id] for trial in trials), ["batch_index", metric], last):
        for trial_id, rows in found.items():
            inside = np.flatnonzero(_numpy(rows["batch_index"]) >= run.grid.batches - last)
            windows[trial_id] = rows[metric].take(inside).to_pylist()
    return windows


@dataclass(frozen=True)
class BlockRows:
    """What one block's trials recorded, by trial id."""

    block: int
    traces: Mapping[str, Trace]
    hashes: Mapping[str, Hashes]


def read_blocks(run: Run, trials: Iterable[Trial], hashes: bool = True) -> Iterator[BlockRows]:
    """Yield losses and hashes of every trial, block by block; few blocks are in memory at a time.

    Args:
        run: the store.
        trials: every planned trial.
        hashes: whether hashes are read too.
    """
    blocks: dict[int, list[str]] = {block: [] for block in run.grid.blocks}
    for trial in trials:
        blocks[trial.block].append(trial.trial_id)
    columns = ["batch_index", "loss", *(("order_hash", "content_hash") if hashes else ())]
    for block, found in zip(blocks, run.batches_of(blocks.values(), columns), strict=True):
        sorted_rows = {trial_id: _ascending(rows) for trial_id, rows in found.items()}
        yield BlockRows(
            block,
            {i: Trace(_numpy(rows["batch_index"]), _numpy(rows["loss"])) for i, rows in sorted_rows.items()},
            {i: Hashes(_known(rows, "order_hash"), _known(rows, "content_hash")) for i, rows in sorted_rows.items()}
            if hashes
            else {},
        )


def read_audits(run: Run) -> dict[str, list[AuditRow]]:
    """Return ``audits`` by trial id, of each trial and batch the rows of the last attempt that looked at it.

    One row stands for all watched batches of a trial in which no saved tensor was found to be overwritten.
    """
    nothing = (pc.field("check") == SAVED) & (pc.field("verdict") == "clean")
    quiet = run.audits(QUIET_COLUMNS, nothing, coded=True)
    others = run.audits(COLUMNS, ~pc.coalesce(nothing, pc.scalar(False)), coded=True)
    found: dict[str, list[AuditRow]] = defaultdict(list)
    for row in audit_rows(quiet, others):
        found[row.trial_id].append(row)
    return found


def _has(column: str, columns: Iterable[str], finished: bool, prefix: str) -> bool:
    """Say whether the outcome's column is there.

    Raises:
        BadInput: trials have finished and did not record it.
    """
    if column in columns:
        return True
    if finished:
        known = [name.removeprefix(prefix) for name in columns if name.startswith(prefix)]
        known += ["loss"] if prefix == "metric." else []
        name = column.removeprefix(prefix)
        found = f"the outcome is {column!r}, which no trial recorded"
        raise BadInput(Problem("grid.yaml: outcome", found, ", ".join(known) or "nothing", nearest(name, known)))
    return False


def _ascending(rows: pa.Table) -> pa.Table:
    """Sort a trial's rows by batch, unless they are as a launch writes them."""
    index = _numpy(rows["batch_index"])
    return rows if (index[1:] > index[:-1]).all() else rows.take(pa.array(np.argsort(index, kind="stable")))


def _known(rows: pa.Table, column: str) -> dict[int, int]:
    """Return the hashes that are there by their batch. Few are, so the others are passed over as bits."""
    values = _whole(rows[column])
    valid, data = values.buffers()
    start, end = values.offset, values.offset + len(values)
    bits = None if valid is None else bytes(memoryview(valid)[start // 8 : -(-end // 8)])
    places = _set_bits(bits, start % 8, len(values))
    found = np.frombuffer(data, np.uint64)[start:end][places]
    return dict(zip(_numpy(rows["batch_index"])[places].tolist(), found.tolist(), strict=True))


@lru_cache(maxsize=64)
def _set_bits(bits: bytes | None, first: int, count: int) -> Any:
    """Return which of ``count`` bits from the ``first`` on are set, all without any; trials are watched alike."""
    if bits is None:
        return np.arange(count)
    return np.flatnonzero(np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little")[first:][:count])


def _numpy(column: Any) -> Any:
    return _whole(column).to_numpy(zero_copy_only=False)


def _whole(column: Any) -> Any:
    """Return a column as one array, which costs a copy only if it is not one yet."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
