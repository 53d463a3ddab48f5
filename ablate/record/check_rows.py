"""Integrity of rows: every trial's batches are there once, in full, and repeated attempts agree bit for bit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ablate.record.finding import Finding, Severity
from ablate.record.reader import Run
from ablate.record.trial_table import FINISHED

_REPORT = "restore the data set from a copy; if nobody changed it by hand, report this as a bug of ablate"
_Trials = Mapping[str, Mapping[str, Any]]


def duplicates_and_gaps(run: Run) -> Iterator[Finding]:
    """C1: a batch is there twice. C2: a batch between the first and the last is missing, or the first is."""
    for trial_id, indices in _by_trial(run.batches(["trial_id", "batch_index"]), "batch_index").items():
        values, counts = np.unique(indices, return_counts=True)
        if (twice := values[counts > 1]).size:
            yield Finding("C1", "error", f"trial {trial_id}, batch {twice[0]}", f"{twice.size} batches twice", _REPORT)
        missing = np.setdiff1d(np.arange(values[-1] + 1), values)
        if missing.size:
            where = f"trial {trial_id}, batch {missing[0]}"
            yield Finding("C2", "error", where, f"{missing.size} batches missing before the last", _REPORT)


def trials_and_batches(run: Run, trials: _Trials, *, writing: bool) -> Iterator[Finding]:
    """C3: a finished trial has too few or too many batches. C4: batches belong to no finished trial."""
    counts = {i: len(rows) for i, rows in _by_trial(run.batches(["trial_id", "batch_index"]), "batch_index").items()}
    for trial_id, row in trials.items():
        if row["status"] not in FINISHED:
            continue
        present, recorded, planned = counts.get(trial_id, 0), row["batches"], run.grid.batches
        if present != recorded:
            yield Finding("C3", "error", f"trial {trial_id}", f"{present} of {recorded} recorded batches", _REPORT)
        elif row["status"] == "done" and recorded != planned:
            yield Finding("C3", "error", f"trial {trial_id}", f"done with {recorded} of {planned} planned batches")
    owned = {trial_id for trial_id, row in trials.items() if row["status"] in FINISHED}
    for trial_id in sorted(counts.keys() - owned):
        found = f"{counts[trial_id]} batches without a finished trial in trials.parquet"
        if writing:
            yield Finding("C4", "note", f"trial {trial_id}", found, "a launch is writing: check again when it is over")
        else:
            yield Finding("C4", "error", f"trial {trial_id}", found, "`ablate launch` moves them to attempts/")


def repeated_attempts(run: Run) -> Iterator[Finding]:
    """C6: an attempt that does not count differs from the one that does, at a batch that both have.

    An error where the arm asked for deterministic algorithms, else a note: the arm does not repeat itself. A note too
    where the two ran on different machines, as far as their names tell.
    """
    attempts = run.attempts(["trial_id", "arm", "attempt", "batch_index", "loss", "host"])
    if not attempts.num_rows:
        return
    kept = _losses(run.batches(["trial_id", "batch_index", "loss"]), "trial_id")
    arms = dict(zip(attempts["trial_id"].to_pylist(), attempts["arm"].to_pylist(), strict=True))
    keys = zip(attempts["trial_id"].to_pylist(), attempts["attempt"].to_pylist(), strict=True)
    tried_on = dict(zip(keys, attempts["host"].to_pylist(), strict=True))
    counts_on = {row["trial_id"]: row["host"] for row in run.trials().select(["trial_id", "host"]).to_pylist()}
    for (trial_id, attempt), other in sorted(_losses(attempts, "trial_id", "attempt").items()):
        mine = kept.get((trial_id,), {})
        differing = sorted(k for k in mine.keys() & other.keys() if mine[k] != other[k])
        if differing:
            arm = run.grid.arms.get(arms[trial_id])
            hosts = tried_on[trial_id, attempt], counts_on.get(trial_id)
            moved = None not in hosts and hosts[0] != hosts[1]
            strict = arm is not None and arm.numerics.deterministic and not moved
            severity: Severity = "error" if strict else "note"
            where = f"trial {trial_id}, attempt {attempt}, batch {differing[0]}"
            found = f"differs bit for bit from the attempt that counts, first here, in {len(differing)} batches"
            advice = f"arm {arms[trial_id]!r} does not repeat itself: give it an A/A arm (`repeat:`) to see by how much"
            if moved:
                advice = f"it ran on {hosts[0]}, the one that counts on {hosts[1]}: their arithmetic differs"
            yield Finding("C6", severity, where, found, advice)


def _by_trial(table: Any, column: str) -> dict[str, np.ndarray[Any, Any]]:
    return {key[0]: values for key, values in _grouped(table, ("trial_id",), column).items()}


def _losses(table: Any, *keys: str) -> dict[tuple[Any, ...], dict[int, int]]:
    """Return for each key the bits of the loss at each batch."""
    indices, losses = _grouped(table, keys, "batch_index"), _grouped(table, keys, "loss")
    return {
        key: dict(zip(indices[key].tolist(), np.ascontiguousarray(losses[key]).view(np.int64).tolist(), strict=True))
        for key in indices
    }


def _grouped(table: Any, keys: tuple[str, ...], column: str) -> dict[tuple[Any, ...], np.ndarray[Any, Any]]:
    """Split a column by key, keeping the rows' order."""
    if not table.num_rows:
        return {}
    codes = np.zeros(table.num_rows, dtype=np.int64)
    levels: list[list[Any]] = []
    for name in keys:
        encoded = table[name].combine_chunks().dictionary_encode()
        levels.append(encoded.dictionary.to_pylist())
        codes = codes * len(levels[-1]) + encoded.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    values = table[column].to_numpy()[order]
    uniques, starts = np.unique(codes[order], return_index=True)
    groups = np.split(values, starts[1:])
    return {_decode(int(code), levels): group for code, group in zip(uniques, groups, strict=True)}


def _decode(code: int, levels: list[list[Any]]) -> tuple[Any, ...]:
    key: list[Any] = []
    for level in reversed(levels):
        code, at = divmod(code, len(level))
        key.append(level[at])
    return tuple(reversed(key))
