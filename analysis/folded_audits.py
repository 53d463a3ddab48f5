"""The rows of ``audits`` made of Arrow tables: the last attempt's count, and what was quiet is folded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from itertools import pairwise, repeat
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analysis.audit_row import SAVED, AuditRow, QuietRow

Index = np.ndarray[Any, np.dtype[np.int64]]

NUMBERS = ("error", "scale", "bound", "noise", "own_error", "own_bound", "roundoff", "anchor")
WORDS = ("role", "near", "source", "quantity", "name", "reference", "dtype", "detail")
TEXT = ("trial_id", "arm", "check", "verdict", *WORDS)
WHOLE = {"block": 0, "batch_index": 0, "count": 1}
"""Columns of whole numbers, and what they are where nothing was written."""
COLUMNS = (*TEXT, *WHOLE, *NUMBERS, "shape", "attempt")
QUIET_COLUMNS = ["trial_id", "arm", "check", "verdict", *WHOLE, "attempt"]
_BATCH_BITS = 40
"""A batch index is below 2^40."""


def audit_rows(pieces: Iterable[pa.Table]) -> tuple[AuditRow, ...]:
    """Return rows of ``audits``, of each trial and batch those of the last attempt that looked at it.

    An attempt that resumed at a checkpoint did not see the first batches; what its forerunner found there still counts.
    A long trial watches every 50th batch, and a row for each without a finding would be nearly all rows there are: one
    stands for all of a trial.

    Args:
        pieces: tables with the columns of ``COLUMNS``; text may be coded.

    Returns:
        tuple: watched batches in which the guard found nothing first, then the others in their order.
    """
    tables: tuple[list[pa.Table], list[pa.Table]] = ([], [])
    for piece in pieces:
        nothing = pc.and_(pc.equal(piece["check"], SAVED), pc.equal(piece["verdict"], "clean")).fill_null(False)
        tables[0].append(piece.select(QUIET_COLUMNS).filter(nothing))
        tables[1].append(piece.filter(pc.invert(nothing)))
    if not tables[0]:
        return ()
    quiet, others = (pa.concat_tables(some) for some in tables)
    keys, attempts = _keys(quiet, others), np.concatenate([_whole(one["attempt"]) for one in (quiet, others)])
    if len(attempts) and attempts.min() != attempts.max():
        seen, at = np.unique(keys, return_inverse=True)
        last = np.zeros(len(seen), np.int64)
        np.maximum.at(last, at, attempts)
        kept = attempts == last[at]
        quiet, others = quiet.filter(kept[: len(quiet)]), others.filter(kept[len(quiet) :])
        keys = keys[kept]
    guarded = np.asarray(pc.equal(others["check"], SAVED).fill_null(False))
    alone = np.isin(keys[: len(quiet)], keys[len(quiet) :][guarded])
    return (*_folded(quiet, keys, np.flatnonzero(~alone)), *_rows(quiet.filter(alone)), *_rows(others))


def _keys(quiet: pa.Table, others: pa.Table) -> Index:
    """Return a number for each trial and batch, equal for equal ones; of one trial they are next to each other."""
    columns = [table["trial_id"] for table in (quiet, others)]
    coded = [c if pa.types.is_dictionary(c.type) else c.dictionary_encode() for c in columns]
    trials = pa.chunked_array([chunk for column in coded for chunk in column.chunks], pa.dictionary("int32", "string"))
    codes = trials.unify_dictionaries().combine_chunks().indices.to_numpy().astype(np.int64)
    return codes << _BATCH_BITS | np.concatenate([1 + _whole(one["batch_index"], -1) for one in (quiet, others)])


def _folded(quiet: pa.Table, keys: Index, rows: Index) -> list[QuietRow]:
    """Return one row for all of some quiet batches of each trial."""
    if not len(rows):
        return []
    order = rows[np.argsort(keys[rows], kind="stable")]
    keys = keys[order]
    begins = np.flatnonzero(np.diff(keys >> _BATCH_BITS, prepend=-1))
    first = pa.array(order[begins])
    tensors = np.add.reduceat(_whole(quiet["count"], 1)[order], begins)
    batches = np.add.reduceat(np.diff(keys, prepend=-1) != 0, begins, dtype=np.int64)
    who = (
        _text(quiet["trial_id"].take(first)),
        _text(quiet["arm"].take(first)),
        _whole(quiet["block"].take(first)).tolist(),
    )
    return [
        QuietRow(trial_id, arm, block, 0, SAVED, "clean", count, batches=watched)
        for trial_id, arm, block, count, watched in zip(*who, tensors.tolist(), batches.tolist(), strict=True)
    ]


def _rows(table: pa.Table) -> list[AuditRow]:
    known = {name: table[name] for name in COLUMNS if name in table.column_names}
    values: dict[str, Sequence[Any]] = {name: _text(known[name]) for name in TEXT if name in known}
    values |= {name: _whole(known[name], null).tolist() for name, null in WHOLE.items() if name in known}
    values |= {name: _finite_ones(known[name]) for name in NUMBERS if name in known}
    if "shape" in known:
        values["shape"] = _shapes(known["shape"])
    columns = [values.get(field.name) or repeat(field.default, len(table)) for field in fields(AuditRow)]
    return list(map(AuditRow, *columns))


def _finite_ones(column: Any) -> list[float | None]:
    numbers = column.to_numpy()
    found = numbers.astype(object)
    found[~np.isfinite(numbers)] = None
    values: list[float | None] = found.tolist()
    return values


def _text(column: Any) -> list[str]:
    """Return words, of a column that holds few different ones each only once."""
    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    whole = coded.unify_dictionaries().combine_chunks()
    words = np.array([*whole.dictionary.to_pylist(), ""], dtype=object)
    found: list[str] = words[_whole(whole.indices, len(words) - 1)].tolist()
    return found


def _shapes(column: Any) -> list[tuple[int, ...]]:
    """Return shapes; one that is not there has no dimensions."""
    whole = column.combine_chunks()
    ends = pc.fill_null(pc.list_value_length(whole), 0).to_numpy().cumsum().tolist()
    sizes = whole.flatten().to_pylist()
    return [tuple(sizes[start:end]) for start, end in pairwise([0, *ends])]


def _whole(column: Any, null: int = 0) -> Index:
    return pc.fill_null(column, null).to_numpy().astype(np.int64, copy=False)
