"""One open part: at which row each of its row groups begins, whose rows they are, and what its footer says of them."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ablate.record.parquet import damage
from ablate.record.part import Entry, Part

NUMBER = "batch_index"


class Stored(NamedTuple):
    """What is stored of a column of one trial; two trials with equal ones have equal rows there, null or not.

    Unequal ones say nothing: equal rows can be encoded in several ways.

    Attributes:
        digest: of the encoded pages.
        values: rows that are not null.
    """

    digest: bytes
    values: int


class OpenPart:
    """A part whose file is open until ``close``."""

    def __init__(self, part: Part) -> None:
        """Open it.

        Raises:
            FileNotFoundError: if it is gone (superseded and unlinked meanwhile).
            StoreError: if it cannot be read.
        """
        self._path = part.path
        with damage(part.path):
            self._file = pa.OSFile(str(part.path))
            self.parquet = pq.ParquetFile(self._file)
            self._footer = self.parquet.metadata
            sizes = [self._footer.row_group(group).num_rows for group in range(self._footer.num_row_groups)]
        self.starts = list(accumulate(sizes, initial=0))
        self._as_written = part.rows == self.starts[-1]
        self.entries = part.entries if self._as_written else self._seen()

    def close(self) -> None:
        """Close the file."""
        self.parquet.close(force=True)
        self._file.close()

    def groups(self, low: int, high: int) -> range:
        """Return the row groups that hold the rows from ``low`` up to ``high``, which is not one of them."""
        return (
            range(bisect_right(self.starts, low) - 1, bisect_right(self.starts, high - 1)) if low < high else range(0)
        )

    def read(self, groups: Sequence[int], columns: Sequence[str] | None) -> Any:
        """Return the rows of some groups; of ``columns`` those that the file has."""
        known = self.parquet.schema_arrow.names
        names = known if columns is None else [name for name in columns if name in known]
        with damage(self._path):  # a reader of its own, since two threads may be here
            return pq.ParquetFile(self._file, metadata=self._footer).read_row_groups(groups, columns=names)

    @cached_property
    def numbers(self) -> Any:
        """The batches' numbers of an attempt of this part, of a shorter one the first of them; None: read them.

        An attempt's rows ascend by batch. Where its row groups, which hold nothing else, have the smallest and largest
        number that their rows would have if these were numbered from 0, no number can be missing between.
        """
        if not self._as_written or NUMBER not in self._places:
            return None
        begins = list(accumulate((entry.rows for entry in self.entries), initial=0))
        for group, (low, high) in enumerate(pairwise(self.starts)):
            entry = bisect_right(begins, low) - 1
            found = self._footer.row_group(group).column(self._places[NUMBER]).statistics
            expected = (0, low - begins[entry], high - 1 - begins[entry])
            alone = low < high <= begins[entry] + self.entries[entry].rows
            if not alone or found is None or (found.null_count, found.min, found.max) != expected:
                return None
        return pa.array(np.arange(max((entry.rows for entry in self.entries), default=0)))

    def stored(self, low: int, high: int, columns: Sequence[str]) -> tuple[Stored, ...] | None:
        """Return what is stored of some columns between two rows.

        Returns:
            None if the rows are not whole row groups, or a column is not there.
        """
        groups = self.groups(low, high)
        whole = bool(groups) and (self.starts[groups[0]], self.starts[groups[-1] + 1]) == (low, high)
        if not whole or not set(columns) <= self._places.keys():
            return None
        rows = [self._footer.row_group(group) for group in groups]
        with damage(self._path):
            found = [self._pages([row.column(self._places[name]) for row in rows]) for name in columns]
        return None if None in found else tuple(one for one in found if one is not None)

    def _pages(self, chunks: Sequence[Any]) -> Stored | None:
        """Return pages with all that decoding them depends on; None if their nulls were not counted."""
        digest, values = hashlib.sha256(), 0
        for chunk in chunks:
            rows, size, counted = chunk.num_values, chunk.total_compressed_size, chunk.statistics
            if counted is None or counted.null_count is None:
                return None
            values += rows - counted.null_count
            digest.update(f"{rows} {size} {chunk.physical_type} {chunk.compression}\n".encode())
            begin = chunk.dictionary_page_offset or chunk.data_page_offset
            digest.update(self._file.read_at(size, begin))
        return Stored(digest.digest(), values)

    @cached_property
    def _places(self) -> dict[str, int]:
        """Of each column that is not nested, its place among the file's."""
        return {self._footer.schema.column(at).path: at for at in range(self._footer.num_columns)}

    def _seen(self) -> tuple[Entry, ...]:
        """Return stretches of one trial's rows, of a part that was rewritten by hand: its metadata no longer tells."""
        with damage(self._path):
            codes = self.parquet.read(columns=["trial_id"])["trial_id"].combine_chunks().dictionary_encode()
        begins = np.flatnonzero(np.diff(codes.indices.to_numpy(), prepend=-1))
        rows = np.diff(begins, append=len(codes))
        names = codes.take(pa.array(begins)).to_pylist()
        return tuple(Entry("", 0, name, 0, int(count)) for name, count in zip(names, rows, strict=True))
