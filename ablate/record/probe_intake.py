"""What probes of snapshots found, on its way from the journal to the data set.

The lines of one snapshot are in the journal only once they are whole, and belong to the trial and not to an attempt. So
they are taken in by themselves: rows first, then the lines are deleted. Every step may be repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ablate.record.disk import store_io
from ablate.record.manifest import NAME as MANIFEST
from ablate.record.part import Entry
from ablate.record.parts import PartedData
from ablate.record.paths import AttemptKey, SnapshotKey, StorePaths
from ablate.record.tables import probes_table

Rows = Mapping[str, Mapping[str, Any]]
"""Rows of the table of trials by trial id."""


def to_look_again(uri: str | None) -> str:
    """Say what makes a store forget its probes: at a URI the manifest names their parts, and goes with them.

    Args:
        uri: where the store is, if it is at a URI; its working copy follows it.
    """
    folder = "the folder probes/ of the store"
    return f"delete {f'{MANIFEST} and {folder}, both at {uri}' if uri else folder}, and run `ablate probe`"


class ProbeIntake:
    """The data set of probes seen by its one writer.

    Args:
        paths: the store.
        factors: Arrow types of the factors.
        metadata: goes into each part (schema version, spec hash).
    """

    def __init__(self, paths: StorePaths, factors: Mapping[str, Any], metadata: Mapping[bytes, bytes]) -> None:
        self._paths = paths
        self._factors = factors
        self._data = PartedData(paths, paths.probes, metadata)  # an entry's attempt is a number of batches here
        self._pending: dict[SnapshotKey, tuple[Entry, Any]] = {}

    @property
    def pending(self) -> list[SnapshotKey]:
        """Snapshots taken in whose rows are not written yet."""
        return list(self._pending)

    def done(self) -> set[SnapshotKey]:
        """Return the snapshots that need not be looked at again: in the data set, or whole in the journal."""
        recorded = (SnapshotKey(*key) for key in self._data.keys)
        return {*recorded, *self._pending, *self._paths.journal_probes()}

    def take(self, key: SnapshotKey, rows: Rows) -> bool:
        """Take in what the probe of a finished trial's snapshot found.

        Returns:
            Whether it is there; a probe that was broken off has left nothing.

        Raises:
            StoreError: if the lines are damaged.
        """
        if key in self._pending or self._recorded(key):
            return True
        lines = self._paths.probe_lines(*key)
        if not lines.exists():
            return False
        row = rows[key.trial_id]
        trial: dict[str, Any] = {name: row[name] for name in ("trial_id", "arm", "block")}
        trial["factors"] = {name: row.get(f"factor.{name}") for name in self._factors}
        found = probes_table(trial, key.batches, lines, self._factors)
        self._pending[key] = Entry(trial["arm"], trial["block"], *key, rows=found.num_rows), found
        return True

    def flush(self) -> None:
        """Write what was taken in and delete its lines.

        Raises:
            StoreError: if the disk is full or fails; what was not written is still in the journal.
        """
        if self._pending:
            self._data.add(dict(self._pending.values()))
            for key in self._pending:
                self._clear(key)
            self._pending.clear()

    def recover(self, rows: Rows, finished: set[str]) -> list[str]:
        """Finish what a crash left, and let go of what belongs to no finished trial: that one runs again.

        Returns:
            What was done, in words.

        Raises:
            StoreError: if lines are damaged, or the disk is full or fails.
        """
        said = []
        if strays := {key for key in self._data.keys if key.trial_id not in finished}:
            self._data.drop(strays)
            owners = sorted({key.trial_id for key in strays})
            said += [f"trial {one}: no finished trial in trials.parquet owns what probes found" for one in owners]
        for key in self._paths.journal_probes():
            if key.trial_id not in finished or self._recorded(key):
                self._clear(key)
            elif self.take(key, rows):
                said.append(f"trial {key.trial_id}: what the probe after {key.batches} batches found")
        self.flush()
        return said

    def merge(self) -> None:
        """Make one part of all parts that are small.

        Raises:
            StoreError: if the disk is full or fails.
        """
        self._data.merge()

    def _recorded(self, key: SnapshotKey) -> bool:
        return AttemptKey(*key) in self._data.keys

    def _clear(self, key: SnapshotKey) -> None:
        path = self._paths.probe_lines(*key)
        with store_io(path):
            path.unlink(missing_ok=True)
