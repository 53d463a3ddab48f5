"""A data set made of immutable parts: appended, merged, never rewritten in place.

Each part lists in its metadata the attempts whose rows it holds, in order, and the parts that it supersedes. A part
that a present part supersedes does not count, so the rename that puts a merged part in place is the merge: a crash
before the old parts are unlinked shows no row twice, and ``heal`` unlinks them. Names are hashes of what a part holds
and supersedes; attempt numbers never repeat, so neither do names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa

from ablate.record.attempt_rows import AttemptRows
from ablate.record.disk import store_io
from ablate.record.parquet import write_parquet
from ablate.record.part import Entry, Part, head, live
from ablate.record.paths import AttemptKey, StorePaths
from ablate.record.schema import conform, unify

GROUP_ROWS = 8192
"""Most rows in a row group. A group's own cost is about 3 kB of footer and headers: 0.4 bytes a row."""
OWN_GROUP_ROWS = 1024
"""From this many rows on a trial has row groups of its own; shorter ones share, or 3 kB each would outweigh them."""
MERGE_BELOW_BYTES = 64 * 2**20
"""Parts at least this large are left alone, so that extending a large store does not rewrite it."""
MOST_PARTS = 64
"""With more parts than this the smallest are merged at once, so that readers never open very many files."""


class PartedData:
    """A data set seen by its one writer."""

    def __init__(self, paths: StorePaths, folder: Path, metadata: Mapping[bytes, bytes]) -> None:
        """Read what is there.

        Args:
            paths: the store.
            folder: the data set's folder.
            metadata: goes into each part (schema version, spec hash).
        """
        self._paths = paths
        self._folder = folder
        self._metadata = metadata
        self.heal()

    @property
    def keys(self) -> Set[AttemptKey]:
        """The attempts that are in the data set."""
        return self._keys

    def heal(self) -> None:
        """Unlink superseded parts that a crash left behind, and look again at what is there."""
        parts = [Part.read(path) for path in self._paths.parts(self._folder)]
        self._parts = live(parts)
        self._keys = {entry.key for part in self._parts for entry in part.entries}
        kept = {part.path for part in self._parts}
        for part in parts:
            if part.path not in kept:
                _unlink(part.path)

    def add(self, attempts: Mapping[Entry, Any]) -> None:
        """Append one part with these attempts' tables; attempts that are there already are left out.

        Raises:
            StoreError: if the disk is full or fails; nothing was added then.
        """
        new = {entry: table for entry, table in attempts.items() if entry.key not in self._keys}
        if new:
            schema = unify(table.schema for table in new.values())
            self._write(sorted(new, key=lambda e: e.order), lambda e: conform(new[e], schema), schema, ())
        if len(self._parts) > MOST_PARTS:
            self._merge_least()

    def append(self, entries: Iterable[Entry], rows: Callable[[Entry], Any], schema: Any) -> None:
        """Append one part of attempts that are not there yet, whose tables are made one by one as they are written.

        Args:
            entries: the attempts.
            rows: gives an attempt's table, of exactly this schema.
            schema: of the part.

        Raises:
            StoreError: if the disk is full or fails; nothing was added then.
        """
        self._write(sorted(entries, key=lambda e: e.order), rows, schema, ())

    def read(self, keys: Collection[AttemptKey]) -> dict[Entry, Any]:
        """Return the tables of some attempts."""
        wanted = [entry for part in self._parts for entry in part.entries if entry.key in keys]
        with closing(AttemptRows(self._parts)) as source:
            return {entry: source.rows(entry) for entry in wanted}

    def drop(self, keys: Collection[AttemptKey]) -> None:
        """Take some attempts out of the data set."""
        for part in [p for p in self._parts if any(entry.key in keys for entry in p.entries)]:
            self._rewrite([part], keys)
        self._keys.difference_update(keys)

    def merge(self) -> None:
        """Make one part of all parts that are small, sorted by (arm, block, trial, batch).

        Raises:
            StoreError: if the disk is full or fails; everything is as before then.
        """
        small = self._small()
        if len(small) > 1:
            self._rewrite(small, ())

    def _merge_least(self) -> None:
        """Merge the parts with the fewest rows, and each further one that has no more than those before it together.

        So a row is rewritten about as often as the data set has doubled, not whenever there are many parts again.
        """
        chosen: list[Part] = []
        together = 0
        for rows, part in sorted(((part.rows, part) for part in self._small()), key=lambda pair: pair[0]):
            if len(chosen) > 1 and rows > together:
                break
            chosen.append(part)
            together += rows
        if len(chosen) > 1:
            self._rewrite(chosen, ())

    def _small(self) -> list[Part]:
        return [part for part in self._parts if part.path.stat().st_size < MERGE_BELOW_BYTES]

    def _rewrite(self, parts: list[Part], without: Collection[AttemptKey]) -> None:
        entries = [entry for part in parts for entry in part.entries if entry.key not in without]
        if entries:
            with closing(AttemptRows(parts)) as source:
                self._write(sorted(entries, key=lambda e: e.order), source.rows, source.schema, parts)
        for part in parts:
            _unlink(part.path)
        self._parts = [part for part in self._parts if part not in parts]

    def _write(self, entries: list[Entry], rows: Any, schema: Any, supersedes: Collection[Part]) -> None:
        holds = head(entries, supersedes)
        path = self._paths.part(self._folder, hashlib.sha256(b"".join(holds.values())).hexdigest()[:16])
        write_parquet(path, schema, _groups(entries, rows), {**self._metadata, **holds})
        self._parts.append(Part.read(path))
        self._keys.update(entry.key for entry in entries)


def _groups(entries: list[Entry], rows: Any) -> Iterator[Any]:
    """Yield row groups: a long attempt's range cut into equal pieces, short attempts together and whole."""
    waiting: list[Any] = []
    together = 0
    for entry in entries:
        table = rows(entry)
        if waiting and (entry.rows >= OWN_GROUP_ROWS or together + entry.rows > GROUP_ROWS):
            yield pa.concat_tables(waiting)
            waiting, together = [], 0
        if entry.rows < OWN_GROUP_ROWS:
            waiting.append(table)
            together += entry.rows
            continue
        pieces = -(-entry.rows // GROUP_ROWS)
        size = -(-entry.rows // pieces)
        yield from (table.slice(at, size) for at in range(0, entry.rows, size))
    if waiting:
        yield pa.concat_tables(waiting)


def _unlink(path: Path) -> None:
    with store_io(path):
        path.unlink(missing_ok=True)
