"""From an attempt's journal files to Arrow tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ablate.errors import Problem, StoreError
from ablate.record.disk import store_io
from ablate.record.journal import HAS_CONTENT, HAS_ORDER, Journal
from ablate.record.schema import (
    artifacts_schema,
    as_level,
    attempts_schema,
    audits_schema,
    batches_schema,
    probes_schema,
    sketches_schema,
)
from ablate.record.sketch import decode


def batches_table(end: Mapping[str, Any], journal: Journal, factors: Mapping[str, Any]) -> Any:
    """Return the rows of ``batches`` that an attempt wrote; floats keep every bit."""
    rows = journal.rows
    columns = {
        "batch_index": pa.array(rows["batch_index"]),
        "loss": pa.array(rows["loss"]),
        "duration_s": pa.array(rows["duration_s"].astype(np.float32)),
        "order_hash": pa.array(rows["order_hash"], mask=(rows["flags"] & HAS_ORDER) == 0),
        "content_hash": pa.array(rows["content_hash"], mask=(rows["flags"] & HAS_CONTENT) == 0),
        **{f"metric.{name}": pa.array(rows[f"metric.{name}"]) for name in journal.metrics},
    }
    return _table(end, columns, batches_schema(factors, journal.metrics), factors, len(rows))


def as_attempt(table: Any, attempt: int, reason: str, host: str | None = None) -> Any:
    """Turn rows of ``batches`` into rows of ``attempts``.

    Args:
        table: the rows.
        attempt: its number.
        reason: why it does not count.
        host: the machine it ran on, if that is known.
    """
    for name, value in (("attempt", attempt), ("reason", reason), ("host", host)):
        field = attempts_schema({}).field(name)
        table = table.append_column(field, pa.repeat(pa.scalar(value, field.type), table.num_rows))
    return table


def audits_table(end: Mapping[str, Any], path: Path, factors: Mapping[str, Any]) -> Any:
    """Return the rows of ``audits`` that an attempt wrote, leaving out a line that was never acknowledged.

    Raises:
        StoreError: if a line is damaged or does not fit the schema.
    """
    return _lines_table(end, path, audits_schema(factors), factors)


def artifacts_table(end: Mapping[str, Any], path: Path, factors: Mapping[str, Any]) -> Any:
    """Return the rows of ``artifacts`` that an attempt wrote, leaving out a line that was never acknowledged.

    Raises:
        StoreError: if a line is damaged or does not fit the schema.
    """
    return _lines_table(end, path, artifacts_schema(factors), factors)


def sketches_table(end: Mapping[str, Any], path: Path, factors: Mapping[str, Any]) -> Any:
    """Return the rows of ``sketches`` that an attempt wrote, leaving out a line that was never acknowledged.

    Raises:
        StoreError: if a line is damaged or does not fit the schema.
    """

    def read(line: bytes) -> dict[str, Any]:
        columns = dict(json.loads(line))
        if columns["values"] is not None:
            columns["values"] = decode(columns["values"])
        return columns

    return _lines_table(end, path, sketches_schema(factors), factors, read)


def probes_table(trial: Mapping[str, Any], batches: int, path: Path, factors: Mapping[str, Any]) -> Any:
    """Return the rows of ``probes`` that the probe of one snapshot wrote; its file is there only if it is whole.

    Args:
        trial: trial_id, arm, block and factors.
        batches: after how many the snapshot was taken.
        path: the file.
        factors: Arrow types of the factors.

    Raises:
        StoreError: if a line is damaged, of another snapshot or does not fit the schema, or there is none.
    """
    table = _lines_table(trial, path, probes_schema(factors), factors, again="the snapshot is looked at again")
    if set(table["batches"].to_pylist()) != {batches}:
        raise _damaged(path, f"it holds no row for {batches} batches, or others", "the snapshot is looked at again")
    return table


def _lines_table(
    end: Mapping[str, Any],
    path: Path,
    schema: Any,
    factors: Mapping[str, Any],
    read: Callable[[bytes], dict[str, Any]] = json.loads,
    again: str = "the trial runs again",
) -> Any:
    if not path.exists():
        return schema.empty_table()
    with store_io(path):
        whole = path.read_bytes().split(b"\n")[:-1]
    try:
        lines = [read(line) for line in whole]
        columns = {
            field.name: pa.array([line.get(field.name) for line in lines], field.type)
            for field in schema
            if field.name not in ("trial_id", "arm", "block", "attempt") and not field.name.startswith("factor.")
        }
    except (ValueError, pa.ArrowException) as error:
        raise _damaged(path, str(error), again) from error
    if "attempt" in schema.names:
        columns["attempt"] = pa.repeat(pa.scalar(end["attempt"], pa.int64()), len(lines))
    return _table(end, columns, schema, factors, len(lines))


def _table(end: Mapping[str, Any], columns: dict[str, Any], schema: Any, factors: Mapping[str, Any], rows: int) -> Any:
    constants = {name: end[name] for name in ("trial_id", "arm", "block")}
    constants |= {f"factor.{name}": as_level(end["factors"].get(name), kind) for name, kind in factors.items()}
    for name, value in constants.items():
        columns[name] = pa.repeat(pa.scalar(value, schema.field(name).type), rows)
    return pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)


def _damaged(path: Path, found: str, again: str) -> StoreError:
    return StoreError(Problem(str(path), f"is damaged ({found})", advice=f"delete it: {again}"))
