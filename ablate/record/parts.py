"""A data set made of immutable parts: appended, merged, never rewritten in place.

Each part lists in its metadata the attempts whose rows it holds, in order, and the parts that it supersedes. A part
that a present part supersedes does not count, so the rename that puts a merged part in place is the merge: a crash
before the old parts are unlinked shows no row twice, and ``heal`` unlinks them. Names are hashes of what a part holds
and supersedes; attempt numbers never repeat, so neither do names.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ablate.record.disk import store_io
from ablate.record.parquet import damage, read_head, write_parquet
from ablate.record.paths import AttemptKey, StorePaths
from ablate.record.schema import conform, unify

_ENTRIES_KEY = b"ablate.entries"
_SUPERSEDES_KEY = b"ablate.supersedes"

GROUP_ROWS = 8192
"""Most rows in a row group. A group's own cost is about 3 kB of footer and headers: 0.4 bytes a row."""
OWN_GROUP_ROWS = 1024
"""From this many rows on a trial has row groups of its own; shorter ones share, or 3 kB each would outweigh them."""
MERGE_BELOW_BYTES = 64 * 2**20
"""Parts at least this large are left alone, so that extending a large store does not rewrite it."""
MOST_PARTS = 64
"""With more parts than this the small ones are merged at once, so that readers never open very many files."""
_CACHED_GROUPS = 64


@dataclass(frozen=True)
class Entry:
    """The rows of one attempt: contiguous in their part, by ascending batch index. The fields' order is on disk."""

    arm: str
    block: int
    trial_id: str
    attempt: int
    rows: int

    @property
    def key(self) -> AttemptKey:
        """Trial id and attempt."""
        return AttemptKey(self.trial_id, self.attempt)

    @property
    def order(self) -> tuple[str, int, str, int]:
        """Where the attempt stands in a sorted part."""
        return (self.arm, self.block, self.trial_id, self.attempt)


@dataclass(frozen=True)
class Part:
    """One file of a data set."""

    path: Path
    entries: tuple[Entry, ...]
    supersedes: frozenset[str]
    schema: Any
    metadata: Mapping[bytes, bytes]

    @staticmethod
    def read(path: Path) -> Part:
        """Read a part's metadata.

        Raises:
            FileNotFoundError: if it is gone (superseded and unlinked meanwhile).
            StoreError: if it cannot be read.
        """
        schema, metadata = read_head(path)
        entries = tuple(Entry(*entry) for entry in json.loads(metadata.get(_ENTRIES_KEY, b"[]")))
        supersedes = frozenset(json.loads(metadata.get(_SUPERSEDES_KEY, b"[]")))
        return Part(path, entries, supersedes, schema, metadata)


def live(parts: Iterable[Part]) -> list[Part]:
    """Return the parts that count, ordered by the first attempt in each."""
    parts = list(parts)
    dead = frozenset().union(*(part.supersedes for part in parts))
    return sorted(
        (part for part in parts if part.path.name not in dead),
        key=lambda part: (part.entries[0].order if part.entries else ("", 0, "", 0), part.path.name),
    )


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
    def keys(self) -> frozenset[AttemptKey]:
        """The attempts that are in the data set."""
        return frozenset(entry.key for part in self._parts for entry in part.entries)

    def heal(self) -> None:
        """Unlink superseded parts that a crash left behind, and look again at what is there."""
        parts = [Part.read(path) for path in self._paths.parts(self._folder)]
        self._parts = live(parts)
        kept = {part.path for part in self._parts}
        for part in parts:
            if part.path not in kept:
                _unlink(part.path)

    def add(self, attempts: Mapping[Entry, Any]) -> None:
        """Append one part with these attempts' tables; attempts that are there already are left out.

        Raises:
            StoreError: if the disk is full or fails; nothing was added then.
        """
        present = self.keys
        new = {entry: table for entry, table in attempts.items() if entry.key not in present}
        if new:
            schema = unify(table.schema for table in new.values())
            self._write(sorted(new, key=lambda e: e.order), lambda e: conform(new[e], schema), schema, ())
        if len(self._parts) > MOST_PARTS:
            self.merge()

    def read(self, keys: Collection[AttemptKey]) -> dict[Entry, Any]:
        """Return the tables of some attempts."""
        wanted = [entry for part in self._parts for entry in part.entries if entry.key in keys]
        with closing(_Source(self._parts)) as source:
            return {entry: source.rows(entry) for entry in wanted}

    def drop(self, keys: Collection[AttemptKey]) -> None:
        """Take some attempts out of the data set."""
        for part in [p for p in self._parts if any(entry.key in keys for entry in p.entries)]:
            self._rewrite([part], keys)

    def merge(self) -> None:
        """Make one part of all parts that are small, sorted by (arm, block, trial, batch).

        Raises:
            StoreError: if the disk is full or fails; everything is as before then.
        """
        small = [part for part in self._parts if part.path.stat().st_size < MERGE_BELOW_BYTES]
        if len(small) > 1:
            self._rewrite(small, ())

    def _rewrite(self, parts: list[Part], without: Collection[AttemptKey]) -> None:
        entries = [entry for part in parts for entry in part.entries if entry.key not in without]
        if entries:
            with closing(_Source(parts)) as source:
                self._write(sorted(entries, key=lambda e: e.order), source.rows, source.schema, parts)
        for part in parts:
            _unlink(part.path)
        self._parts = [part for part in self._parts if part not in parts]

    def _write(self, entries: list[Entry], rows: Any, schema: Any, supersedes: Iterable[Part]) -> None:
        old = sorted(part.path.name for part in supersedes)
        metadata = {
            **self._metadata,
            _ENTRIES_KEY: json.dumps([astuple(e) for e in entries], separators=(",", ":")).encode(),
            _SUPERSEDES_KEY: json.dumps(old).encode(),
        }
        digest = hashlib.sha256(metadata[_ENTRIES_KEY] + metadata[_SUPERSEDES_KEY]).hexdigest()[:16]
        path = self._paths.part(self._folder, digest)
        write_parquet(path, schema, _groups(entries, rows), metadata)
        self._parts.append(Part.read(path))


class _Source:
    """Random access to attempts in parts, a row group at a time."""

    def __init__(self, parts: Iterable[Part]) -> None:
        self._files: dict[Path, Any] = {}
        self._place: dict[Entry, tuple[Path, int]] = {}
        self._groups: dict[tuple[Path, int], Any] = {}
        for part in parts:
            with damage(part.path):
                self._files[part.path] = pq.ParquetFile(part.path)
            at = 0
            for entry in part.entries:
                self._place[entry] = (part.path, at)
                at += entry.rows
        self.schema = unify(file.schema_arrow for file in self._files.values()) if self._files else pa.schema([])

    def rows(self, entry: Entry) -> Any:
        """Return an attempt's table under the common schema."""
        path, start = self._place[entry]
        pieces, at = [], 0
        metadata = self._files[path].metadata
        for group in range(metadata.num_row_groups):
            size = metadata.row_group(group).num_rows
            low, high = max(start, at), min(start + entry.rows, at + size)
            if low < high:
                pieces.append(self._group(path, group).slice(low - at, high - low))
            at += size
        return pa.concat_tables(pieces) if pieces else self.schema.empty_table()

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()

    def _group(self, path: Path, group: int) -> Any:
        key = (path, group)
        if key not in self._groups:
            while len(self._groups) >= _CACHED_GROUPS:
                del self._groups[next(iter(self._groups))]
            with damage(path):
                self._groups[key] = conform(self._files[path].read_row_group(group), self.schema)
        return self._groups[key]


def _groups(entries: list[Entry], rows: Any) -> Iterator[Any]:
    """Yield row groups: a long attempt's range cut into equal pieces, short attempts together and whole."""
    waiting: list[Any] = []
    for entry in entries:
        table = rows(entry)
        if waiting and (entry.rows >= OWN_GROUP_ROWS or sum(t.num_rows for t in waiting) + entry.rows > GROUP_ROWS):
            yield pa.concat_tables(waiting)
            waiting = []
        if entry.rows < OWN_GROUP_ROWS:
            waiting.append(table)
            continue
        pieces = -(-entry.rows // GROUP_ROWS)
        size = -(-entry.rows // pieces)
        yield from (table.slice(at, size) for at in range(0, entry.rows, size))
    if waiting:
        yield pa.concat_tables(waiting)


def _unlink(path: Path) -> None:
    with store_io(path):
        path.unlink(missing_ok=True)
