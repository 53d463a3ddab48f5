"""Reads from a run what the gap analysis needs, in as few and as small reads as it can."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ablate.design.cross import trials as planned_trials
from ablate.errors import BadInput, Problem, nearest
from ablate.record.reader import Run
from analysis.audit_row import COLUMNS, AuditRow, audit_rows
from analysis.confounding import Hashes
from analysis.divergence import Trace
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
    if not finished or not _has(metric, run.batches(filter=pc.scalar(False)).column_names, finished, "metric."):
        return {trial.trial_id: Outcome(None, trial.trouble or f"no {metric} was recorded") for trial in trials}
    window = run.batches(["trial_id", metric], pc.field("batch_index") >= run.grid.batches - last)
    return window_outcomes(trials, window, metric, last)


def read_block(run: Run, block: int) -> tuple[dict[str, Trace], dict[str, Hashes]]:
    """Return losses and hashes of every trial of one block, by trial id; one block is in memory at a time."""
    table = run.batches(["trial_id", "batch_index", "loss", "order_hash", "content_hash"], pc.field("block") == block)
    traces, hashes = {}, {}
    for trial_id, rows in _by_trial(table):
        traces[trial_id] = Trace(_numpy(rows["batch_index"]), _numpy(rows["loss"]))
        hashes[trial_id] = Hashes(_known(rows, "order_hash"), _known(rows, "content_hash"))
    return traces, hashes


def read_audits(run: Run) -> dict[str, list[AuditRow]]:
    """Return ``audits`` by trial id, of each trial and batch the rows of the last attempt that looked at it."""
    found: dict[str, list[AuditRow]] = defaultdict(list)
    for row in audit_rows(run.audits().select(COLUMNS).to_pylist()):
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


def _by_trial(table: pa.Table) -> list[tuple[str, pa.Table]]:
    """Split a table by trial, each part sorted by batch."""
    codes = table["trial_id"].combine_chunks().dictionary_encode()
    keys = np.asarray(codes.indices)
    order = np.lexsort((_numpy(table["batch_index"]), keys))
    ends = np.flatnonzero(np.diff(keys[order])) + 1
    names = codes.dictionary.to_pylist()
    return [(names[keys[part[0]]], table.take(pa.array(part))) for part in np.split(order, ends) if len(part)]


def _known(rows: pa.Table, column: str) -> dict[int, int]:
    present = rows.filter(pc.is_valid(rows[column]))
    return dict(zip(present["batch_index"].to_pylist(), present[column].to_pylist(), strict=True))


def _numpy(column: Any) -> Any:
    return column.combine_chunks().to_numpy(zero_copy_only=False)
