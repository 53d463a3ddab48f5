"""Reads from a run what the gap analysis needs, in as few and as small reads as it can."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ablate.design.cross import trials as planned_trials
from ablate.errors import BadInput, Problem, nearest
from ablate.record.reader import Run
from analysis.audit_row import AuditRow
from analysis.confounding import Hashes
from analysis.divergence import Trace
from analysis.folded_audits import COLUMNS, audit_rows
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
    known = outcomes_without_batches(run, trials, recorded)
    if known is not None:
        return known
    metric = metric_column(run)
    windows = {}
    for found in run.batches_of(([trial.trial_id] for trial in trials), ["batch_index", metric], _last(run)):
        windows |= {trial_id: _window(run, _ascending(rows), metric) for trial_id, rows in found.items()}
    return outcomes_of_windows(run, trials, windows)


def metric_column(run: Run) -> str:
    """Return the column of ``batches`` of which the outcome is the mean, unless it is a held-out value."""
    metric = run.grid.outcome.metric
    return metric if metric == "loss" else f"metric.{metric}"


def outcomes_without_batches(run: Run, trials: Sequence[Trial], recorded: pa.Table) -> dict[str, Outcome] | None:
    """Return the outcomes for which no batch need be read, or why there are none; None if batches must be.

    Raises:
        BadInput: as ``read_outcomes`` does.
    """
    outcome, metric = run.grid.outcome, metric_column(run)
    finished = any(trial.status == "done" for trial in trials)
    if outcome.evaluate is not None:
        column = f"evaluate.{outcome.evaluate}"
        if not _has(column, recorded.column_names, finished, "evaluate."):
            return _none(trials, f"{column} was not recorded")
        values = dict(zip(recorded["trial_id"].to_pylist(), recorded[column].to_pylist(), strict=True))
        return evaluated_outcomes(trials, values, column)
    if finished and not run.parts(run.paths.batches):  # deleted: then nothing says which metrics there were
        return _none(trials, "its batches are not in the store")
    if not finished or not _has(metric, run.columns(), finished, "metric."):
        return _none(trials, f"no {metric} was recorded")
    return None


def _none(trials: Iterable[Trial], why: str) -> dict[str, Outcome]:
    return {trial.trial_id: Outcome(None, trial.trouble or why) for trial in trials}


def outcomes_of_windows(
    run: Run, trials: Sequence[Trial], windows: Mapping[str, list[float | None]]
) -> dict[str, Outcome]:
    """Return the outcomes that are means over the outcome's window of batches, whose values are given."""
    return window_outcomes(trials, windows, metric_column(run), _last(run))


def _last(run: Run) -> int:
    return min(run.grid.outcome.last, run.grid.batches)


def _window(run: Run, rows: pa.Table, metric: str) -> list[float | None]:
    """Return a trial's values of the outcome's window, of rows that ascend by batch."""
    first = np.searchsorted(_numpy(rows["batch_index"]), run.grid.batches - _last(run))
    values: list[float | None] = rows[metric].slice(int(first)).to_pylist()
    return values


@dataclass(frozen=True)
class BlockRows:
    """What one block's trials recorded, by trial id.

    Attributes:
        block: its number.
        traces: losses.
        windows: a metric's values in the outcome's window of batches; empty unless they were asked for.
    """

    block: int
    traces: Mapping[str, Trace]
    windows: Mapping[str, list[float | None]]


def read_blocks(run: Run, trials: Iterable[Trial], metric: str = "") -> Iterator[BlockRows]:
    """Yield losses of every trial, block by block; few blocks are in memory at a time.

    Args:
        run: the store.
        trials: every planned trial.
        metric: the column of which the outcome's window is read too; none if empty.
    """
    blocks: dict[int, list[str]] = {block: [] for block in run.grid.blocks}
    for trial in trials:
        blocks[trial.block].append(trial.trial_id)
    columns = list(dict.fromkeys(["batch_index", "loss", *([metric] if metric else [])]))
    for block, found in zip(blocks, run.batches_of(blocks.values(), columns), strict=True):
        ordered = {trial_id: _ascending(rows) for trial_id, rows in found.items()}
        yield BlockRows(
            block,
            {i: Trace(_numpy(rows["batch_index"]), _numpy(rows["loss"])) for i, rows in ordered.items()},
            {i: _window(run, rows, metric) for i, rows in ordered.items() if metric},
        )


def read_hashes(run: Run, groups: Iterable[Collection[str]]) -> Iterator[dict[str, Hashes]]:
    """Yield the hashes of one group of trials after the other, by trial id.

    Args:
        run: the store.
        groups: ids of the trials in each; few groups are in memory at a time.
    """
    columns = ["batch_index", "order_hash", "content_hash"]
    for found in run.batches_of(groups, columns):
        ordered = ((trial_id, _ascending(rows)) for trial_id, rows in found.items())
        yield {i: Hashes(_numpy(rows[columns[0]]), *(_whole(rows[n]) for n in columns[1:])) for i, rows in ordered}


def read_audits(run: Run) -> dict[str, list[AuditRow]]:
    """Return ``audits`` by trial id, of each trial and batch the rows of the last attempt that looked at it.

    One row stands for all watched batches of a trial in which no saved tensor was found to be overwritten.
    """
    found: dict[str, list[AuditRow]] = defaultdict(list)
    for row in audit_rows(run.audits_in_pieces(COLUMNS)):
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


def _numpy(column: Any) -> Any:
    return _whole(column).to_numpy(zero_copy_only=False)


def _whole(column: Any) -> Any:
    """Return a column as one array, which costs a copy only if it is not one yet."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
