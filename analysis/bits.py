"""Bit-for-bit comparison of Arrow tables, and the bits of NaN that a text cannot hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

UNSIGNED = {pa.float32(): np.uint32, pa.float64(): np.uint64}
PLAIN_NAN = {kind: int(np.array(np.nan, kind.to_pandas_dtype()).view(bits)) for kind, bits in UNSIGNED.items()}
"""The bits that a parser gives for the text ``nan``."""


def first_difference(mine: pa.Table, theirs: pa.Table) -> str:
    """Say where two tables first differ in names, types, rows, nulls or any bit; empty if nowhere.

    Args:
        mine: what was written.
        theirs: what was read back.
    """
    if mine.schema.names != theirs.schema.names or mine.schema.types != theirs.schema.types:
        return f"columns {mine.schema.names} {mine.schema.types}, not {theirs.schema.names} {theirs.schema.types}"
    if mine.num_rows != theirs.num_rows:
        return f"{theirs.num_rows} rows, not {mine.num_rows}"
    for name in mine.schema.names:
        a, b = (table[name].combine_chunks() for table in (mine, theirs))
        unequal = np.flatnonzero(~_equal(a, b))
        if len(unequal):
            at = int(unequal[0])
            return f"column {name!r}, row {at}: {b[at].as_py()!r}, not {a[at].as_py()!r}"
    return ""


def odd_nans(column: Any) -> dict[int, int]:
    """Return row -> bits of each NaN whose bits are not those of the text ``nan`` (a sign, a payload).

    Args:
        column: an Arrow array of any type.
    """
    if column.type not in UNSIGNED:
        return {}
    bits = _bits(column)
    odd = np.flatnonzero(np.isnan(bits.view(column.type.to_pandas_dtype())) & (bits != PLAIN_NAN[column.type]))
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    return {int(at): int(bits[at]) for at in odd if valid[at]}


def with_bits(column: Any, bits: dict[int, int]) -> Any:
    """Put bits back that ``odd_nans`` gave."""
    if not bits:
        return column
    values, missing = _bits(column).copy(), column.is_null().to_numpy(zero_copy_only=False)
    values[list(bits)] = list(bits.values())
    return pa.array(values.view(column.type.to_pandas_dtype()), mask=missing, from_pandas=False)


def _equal(a: Any, b: Any) -> Any:
    valid = [one.is_valid().to_numpy(zero_copy_only=False) for one in (a, b)]
    if a.type in UNSIGNED:
        same = _bits(a) == _bits(b)
    elif pa.types.is_list(a.type):
        same = np.array([x == y for x, y in zip(a.to_pylist(), b.to_pylist(), strict=True)], dtype=bool)
    else:
        same = pc.fill_null(pc.equal(a, b), False).to_numpy(zero_copy_only=False)
    return (valid[0] == valid[1]) & (same | ~valid[0])


def _bits(column: Any) -> Any:
    """Return the bits of a float column, those of 0 where it is null; shape (rows,)."""
    return pc.fill_null(column, 0.0).to_numpy(zero_copy_only=False).view(UNSIGNED[column.type])
