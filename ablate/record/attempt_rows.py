"""Where the rows of each attempt lie in the parts of a data set, and reading just those: by row group, not by row.

A part's metadata says which attempts it holds and how long each is, so no column need be searched for them; nor need
the batches' numbers be read where the row groups' statistics say them. Files that are open stay readable when a merge
unlinks them: what was opened is one consistent view of the data set.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate, chain
from typing import Any

import pyarrow as pa

from ablate.record.open_part import NUMBER, OpenPart, Stored
from ablate.record.part import Entry, Part
from ablate.record.schema import conform, unify

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
        self._files: list[OpenPart] = []
        self._places: dict[Entry, tuple[OpenPart, int]] = {}
        self._of_trial: dict[str, list[tuple[OpenPart, int, int]]] = defaultdict(list)
        self._cached: dict[tuple[OpenPart, int], Any] = {}
        try:
            for part in parts:
                self._files.append(OpenPart(part))
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
        wanted: dict[OpenPart, list[tuple[str, int, int, int]]] = defaultdict(list)
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

    def stored(self, trial_id: str, columns: Sequence[str]) -> tuple[Stored, ...] | None:
        """Return what is stored of some columns of a trial, whose rows are not read.

        Returns:
            None if a column is not there, or nothing is there that is of this trial alone: its rows share row groups
            with another's, or are in several places.
        """
        places = self._of_trial.get(trial_id, ())
        return places[0][0].stored(*places[0][1:], columns) if len(places) == 1 else None

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            file.close()

    def _group(self, file: OpenPart, group: int) -> Any:
        key = (file, group)
        if key not in self._cached:
            while len(self._cached) >= _CACHED_GROUPS:
                del self._cached[next(iter(self._cached))]
            self._cached[key] = conform(file.read([group], None), self.schema)
        return self._cached[key]
