"""Where the rows of each attempt lie in the parts of a data set, and reading just those: by row group, not by row.

A part's metadata says which attempts it holds and how long each is, so no column need be searched for them; nor need
the batches' numbers be read where the row groups' statistics say them. Files that are open stay readable when a merge
unlinks them: what was opened is one consistent view of the data set.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from itertools import accumulate, chain, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ablate.record.parquet import damage
from ablate.record.part import Entry, Part
from ablate.record.schema import conform, unify

NUMBER = "batch_index"
_CACHED_GROUPS = 64


class AttemptRows:
    """The attempts in some parts, whose files are open until ``close``.

    Attributes:
        schema: the common one.
    """

    def __init__(self, parts: Iterable[Part]) -> None:
        """Open the parts.

        Raises:
            FileNotFoundError: if one is gone (superseded and unlinked meanwhile).
            StoreError: if one cannot be read.
        """
        self._files: list[_File] = []
        self._places: dict[Entry, tuple[_File, int]] = {}
        self._of_trial: dict[str, list[tuple[_File, int, int]]] = defaultdict(list)
        self._cached: dict[tuple[_File, int], Any] = {}
        try:
            for part in parts:
                self._files.append(_File(part))
        except BaseException:
            self.close()
            raise
        for file in self._files:
            ends = list(accumulate(entry.rows for entry in file.entries))
            for entry, end in zip(file.entries, ends, strict=True):
                self._places[entry] = (file, end - entry.rows)
                self._of_trial[entry.trial_id].append((file, end - entry.rows, end))
        self.schema = unify(file.parquet.schema_arrow for file in self._files) if self._files else pa.schema([])

    def rows(self, entry: Entry) -> Any:
        """Return an attempt's table under the common schema."""
        file, start = self._places[entry]
        pieces = []
        for group in file.groups(start, start + entry.rows):
            at, end = file.starts[group], file.starts[group + 1]
            low, high = max(start, at), min(start + entry.rows, end)
            pieces.append(self._group(file, group).slice(low - at, high - low))
        return pa.concat_tables(pieces) if pieces else self.schema.empty_table()

    def count(self, trial_id: str) -> int:
        """Return how many rows a trial has."""
        return sum(high - low for _, low, high in self._of_trial.get(trial_id, ()))

    def of_trials(self, trials: Collection[str], schema: Any, last: int | None = None) -> dict[str, Any]:
        """Return the tables of some trials; no row group is read that holds none of their rows, and none twice.

        Args:
            trials: their ids; one without rows is not in the result.
            schema: the columns to read.
            last: of each attempt so many rows at the end; None for all.
        """
        wanted: dict[_File, list[tuple[str, int, int, int]]] = defaultdict(list)
        for trial_id in trials:
            for file, start, high in self._of_trial.get(trial_id, ()):
                wanted[file].append((trial_id, start, start if last is None else max(start, high - last), high))
        pieces: dict[str, list[Any]] = defaultdict(list)
        at = schema.get_field_index(NUMBER)
        for file, stretches in wanted.items():
            groups = sorted(set(chain.from_iterable(file.groups(low, high) for _, _, low, high in stretches)))
            numbers = file.numbers if at >= 0 else None
            read = schema if numbers is None else schema.remove(at)
            table = conform(file.read(groups, read.names), read).combine_chunks()
            sizes = (file.starts[group + 1] - file.starts[group] for group in groups)
            begins = dict(zip(groups, accumulate(sizes, initial=0), strict=False))
            for trial_id, start, low, high in stretches:
                if low < high:
                    first = file.groups(low, high)[0]
                    own = table.slice(begins[first] + low - file.starts[first], high - low)
                    if numbers is not None:
                        own = own.add_column(at, schema.field(at), numbers.slice(low - start, high - low))
                    pieces[trial_id].append(own)
        return {trial_id: pa.concat_tables(own) if len(own) > 1 else own[0] for trial_id, own in pieces.items()}

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            file.parquet.close()

    def _group(self, file: _File, group: int) -> Any:
        key = (file, group)
        if key not in self._cached:
            while len(self._cached) >= _CACHED_GROUPS:
                del self._cached[next(iter(self._cached))]
            self._cached[key] = conform(file.read([group], None), self.schema)
        return self._cached[key]


class _File:
    """One open part: at which row each of its row groups begins, and whose rows they are."""

    def __init__(self, part: Part) -> None:
        self._path = part.path
        with damage(part.path):
            self.parquet = pq.ParquetFile(part.path)
            footer = self.parquet.metadata
            sizes = [footer.row_group(group).num_rows for group in range(footer.num_row_groups)]
        self.starts = list(accumulate(sizes, initial=0))
        self._as_written = part.rows == self.starts[-1]
        self.entries = part.entries if self._as_written else self._seen()

    @cached_property
    def numbers(self) -> Any:
        """The batches' numbers of an attempt of this part, of a shorter one the first of them; None: read them.

        An attempt's rows ascend by batch. Where its row groups, which hold nothing else, have the smallest and largest
        number that their rows would have if these were numbered from 0, no number can be missing between.
        """
        if not self._as_written:
            return None
        footer = self.parquet.metadata
        names = [footer.schema.column(at).path for at in range(footer.num_columns)]
        if NUMBER not in names:
            return None
        begins = list(accumulate((entry.rows for entry in self.entries), initial=0))
        for group, (low, high) in enumerate(pairwise(self.starts)):
            entry = bisect_right(begins, low) - 1
            found = footer.row_group(group).column(names.index(NUMBER)).statistics
            expected = (0, low - begins[entry], high - 1 - begins[entry])
            alone = low < high <= begins[entry] + self.entries[entry].rows
            if not alone or found is None or (found.null_count, found.min, found.max) != expected:
                return None
        return pa.array(np.arange(max((entry.rows for entry in self.entries), default=0)))

    def groups(self, low: int, high: int) -> range:
        """Return the row groups that hold the rows from ``low`` up to ``high``, which is not one of them."""
        return (
            range(bisect_right(self.starts, low) - 1, bisect_right(self.starts, high - 1)) if low < high else range(0)
        )

    def read(self, groups: Sequence[int], columns: Sequence[str] | None) -> Any:
        """Return the rows of some groups; of ``columns`` those that the file has."""
        known = self.parquet.schema_arrow.names
        names = known if columns is None else [name for name in columns if name in known]
        with damage(self._path):
            return self.parquet.read_row_groups(groups, columns=names)

    def _seen(self) -> tuple[Entry, ...]:
        """Return stretches of one trial's rows, of a part that was rewritten by hand: its metadata no longer tells."""
        with damage(self._path):
            codes = self.parquet.read(columns=["trial_id"])["trial_id"].combine_chunks().dictionary_encode()
        begins = np.flatnonzero(np.diff(codes.indices.to_numpy(), prepend=-1))
        rows = np.diff(begins, append=len(codes))
        names = codes.take(pa.array(begins)).to_pylist()
        return tuple(Entry("", 0, name, 0, int(count)) for name, count in zip(names, rows, strict=True))
