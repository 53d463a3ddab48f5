"""One Arrow table as CSV and back, every bit of it: floats as their shortest text, NaN's odd bits beside the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv

from analysis.bits import odd_nans, with_bits

_PLAIN = (pa.string(), pa.int64(), pa.uint64(), pa.float32(), pa.float64(), pa.bool_())
TYPES: dict[str, Any] = {str(kind): kind for kind in (*_PLAIN, pa.list_(pa.int64()), pa.list_(pa.float64()))} | {
    "timestamp[us, tz=UTC]": pa.timestamp("us", tz="UTC")
}
"""Every type that a data set has, by the name that the sidecar gives it."""


def write_table(table: pa.Table, path: Path) -> dict[str, Any]:
    """Write a table; null is an empty field, an empty text is quoted.

    Args:
        table: columns of the types above.
        path: the file.

    Returns:
        What ``read_table`` needs beside the file: ``columns`` with name and type, ``rows``, and ``nan_bits`` (column ->
        row -> hexadecimal bits) for NaNs with a sign or a payload.

    Raises:
        ValueError: a column has another type.
    """
    odd = {name: odd_nans(table[name].combine_chunks()) for name in table.schema.names}
    text = [_as_text(table[name]) for name in table.schema.names]
    csv.write_csv(pa.table(text, names=table.schema.names), path)
    return {
        "file": path.name,
        "rows": table.num_rows,
        "columns": [{"name": field.name, "type": _name(field.type)} for field in table.schema],
        "nan_bits": {
            name: {str(row): f"{bits:x}" for row, bits in found.items()} for name, found in odd.items() if found
        },
    }


def read_table(path: Path, sidecar: dict[str, Any]) -> pa.Table:
    """Read a table back.

    Args:
        path: the file.
        sidecar: what ``write_table`` returned.
    """
    kinds = {column["name"]: TYPES[column["type"]] for column in sidecar["columns"]}
    read = csv.read_csv(
        path,
        parse_options=csv.ParseOptions(newlines_in_values=True),
        convert_options=csv.ConvertOptions(
            column_types={name: pa.string() if pa.types.is_list(kind) else kind for name, kind in kinds.items()},
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            true_values=["true"],
            false_values=["false"],
        ),
    )
    columns = []
    for name, kind in kinds.items():
        column = read[name].combine_chunks()
        if pa.types.is_list(kind):
            column = pa.array([None if text is None else json.loads(text) for text in column.to_pylist()], kind)
        bits = {int(row): int(text, 16) for row, text in sidecar["nan_bits"].get(name, {}).items()}
        columns.append(with_bits(column, bits))
    return pa.table(columns, names=list(kinds))


def _as_text(column: Any) -> Any:
    if not pa.types.is_list(column.type):
        return column
    return pa.array([None if value is None else json.dumps(value) for value in column.to_pylist()], pa.string())


def _name(kind: Any) -> str:
    for name, known in TYPES.items():
        if known == kind:
            return name
    raise ValueError(f"no text is known for columns of type {kind}")
