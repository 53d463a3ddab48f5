"""One immutable part of a data set: which attempts' rows it holds, in order, and which parts it supersedes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from ablate.record.parquet import read_head
from ablate.record.paths import AttemptKey

_ENTRIES_KEY = b"ablate.entries"
_SUPERSEDES_KEY = b"ablate.supersedes"


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

    @property
    def rows(self) -> int:
        """How many rows its attempts have."""
        return sum(entry.rows for entry in self.entries)

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


def head(entries: Iterable[Entry], supersedes: Iterable[Part]) -> dict[bytes, bytes]:
    """Return the metadata of a part with these entries in place of these parts."""
    return {
        _ENTRIES_KEY: json.dumps([astuple(e) for e in entries], separators=(",", ":")).encode(),
        _SUPERSEDES_KEY: json.dumps(sorted(part.path.name for part in supersedes)).encode(),
    }
