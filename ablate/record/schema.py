"""Columns of the data sets. Every column is inside the file, flat and typed, so that any Parquet reader can use it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from ablate.design.trial_spec import Scalar
from ablate.record.columns import ARTIFACT_COLUMNS, AUDIT_COLUMNS, PROBE_COLUMNS, SKETCH_COLUMNS, TRIAL_COLUMNS

SCHEMA_VERSION = 1

VERSION_KEY = b"ablate.schema_version"
SPEC_KEY = b"ablate.spec_hash"

ARROW_TYPES = {
    "string": pa.string(),
    "int64": pa.int64(),
    "float64": pa.float64(),
    "bool": pa.bool_(),
    "timestamp_utc": pa.timestamp("us", tz="UTC"),
    "list_int64": pa.list_(pa.int64()),
    "list_float64": pa.list_(pa.float64()),
}

_PROBE_KEYS = {"batches", "player", "name"}


def factor_types(factors: Mapping[str, Iterable[Scalar]]) -> dict[str, Any]:
    """Return each factor's Arrow type: bool, int64, float64 (also for whole and broken numbers mixed), else string."""
    return {name: _type_of(list(levels)) for name, levels in factors.items()}


def batches_schema(factors: Mapping[str, Any], metrics: Iterable[str] = ()) -> Any:
    """Schema of ``batches``: one row per trial and batch."""
    return _identified(
        factors,
        pa.field("batch_index", pa.int64(), nullable=False),
        pa.field("loss", pa.float64(), nullable=False),
        pa.field("duration_s", pa.float32()),
        pa.field("order_hash", pa.uint64()),
        pa.field("content_hash", pa.uint64()),
        *(pa.field(f"metric.{name}", pa.float64()) for name in metrics),
    )


def attempts_schema(factors: Mapping[str, Any], metrics: Iterable[str] = ()) -> Any:
    """Schema of ``attempts``: as ``batches``, with the attempt's number, why it does not count, and where it ran."""
    schema = batches_schema(factors, metrics).append(pa.field("attempt", pa.int64(), nullable=False))
    return schema.append(pa.field("reason", pa.string())).append(pa.field("host", pa.string()))


def audits_schema(factors: Mapping[str, Any]) -> Any:
    """Schema of ``audits``: one row per tensor, draw or batch looked at."""
    return _identified(
        factors,
        pa.field("attempt", pa.int64(), nullable=False),
        *(pa.field(name, ARROW_TYPES[kind]) for name, kind in AUDIT_COLUMNS.items()),
    )


def artifacts_schema(factors: Mapping[str, Any]) -> Any:
    """Schema of ``artifacts``: one row per trial, batch and name."""
    return _identified(
        factors,
        pa.field("attempt", pa.int64(), nullable=False),
        *(pa.field(name, ARROW_TYPES[kind]) for name, kind in ARTIFACT_COLUMNS.items()),
    )


def sketches_schema(factors: Mapping[str, Any]) -> Any:
    """Schema of ``sketches``: one row per trial and batch after which its parameters were sketched."""
    return _identified(
        factors,
        pa.field("attempt", pa.int64(), nullable=False),
        *(pa.field(name, ARROW_TYPES[kind]) for name, kind in SKETCH_COLUMNS.items()),
    )


def probes_schema(factors: Mapping[str, Any]) -> Any:
    """Schema of ``probes``: one row per trial, snapshot and value that was found of its curvature.

    There is no attempt: a probe looks at a file that is the same whatever the attempt that wrote it.
    """
    return _identified(
        factors, *(pa.field(name, ARROW_TYPES[kind], name not in _PROBE_KEYS) for name, kind in PROBE_COLUMNS.items())
    )


def trials_schema(factors: Mapping[str, Any], evaluations: Iterable[str] = ()) -> Any:
    """Schema of ``trials``: one row per trial, about the attempt that counts."""
    return _identified(
        factors,
        pa.field("attempt", pa.int64(), nullable=False),
        pa.field("status", pa.string(), nullable=False),
        pa.field("failures_code", pa.int64(), nullable=False),
        pa.field("failures_infrastructure", pa.int64(), nullable=False),
        pa.field("batches", pa.int64(), nullable=False),
        *(pa.field(name, ARROW_TYPES[kind]) for name, kind in TRIAL_COLUMNS.items()),
        *(pa.field(f"evaluate.{name}", pa.float64()) for name in evaluations),
    )


def as_level(value: Scalar | None, kind: Any) -> Scalar | None:
    """Convert a level to its column's type (whole in a float column, anything in a text column); None stays."""
    if value is None:
        return None
    if pa.types.is_float64(kind):
        return float(value)
    return str(value) if pa.types.is_string(kind) else value


def unify(schemas: Iterable[Any]) -> Any:
    """Return the schema that holds every column of ``schemas``; whole and broken numbers meet in float64."""
    return pa.unify_schemas([schema.remove_metadata() for schema in schemas], promote_options="permissive")


def conform(table: Any, schema: Any) -> Any:
    """Give ``table`` exactly the columns of ``schema``: cast what is there, null what is not."""
    columns = [
        table.column(field.name).cast(field.type)
        if field.name in table.column_names
        else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _identified(factors: Mapping[str, Any], *fields: Any) -> Any:
    return pa.schema(
        [
            pa.field("trial_id", pa.string(), nullable=False),
            pa.field("arm", pa.string(), nullable=False),
            pa.field("block", pa.int64(), nullable=False),
            *(pa.field(f"factor.{name}", kind) for name, kind in factors.items()),
            *fields,
        ]
    )


def _type_of(levels: list[Scalar]) -> Any:
    kinds = {type(level) for level in levels}
    if kinds == {bool}:
        return pa.bool_()
    if kinds == {int}:
        return pa.int64()
    if kinds <= {int, float} and kinds:
        return pa.float64()
    return pa.string()
