"""The store seen by its one writer, the launching process: open, recover, absorb finished attempts, close.

The order of durability is batches, audits, artifacts, sketches, trials, then the journal files are deleted. Every step
may be repeated: data sets know which attempts they hold, the table of trials knows which attempts it counted. So a
crash between any two steps loses nothing and shows nothing twice, and the next ``Store.open`` finishes what was begun.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ablate.design.spec import GridSpec
from ablate.design.trial_spec import TrialSpec
from ablate.errors import StoreError
from ablate.record.artifact_file import discard_superseded
from ablate.record.columns import FailureKind
from ablate.record.create import create_folders, settle_spec
from ablate.record.disk import store_io
from ablate.record.intake import Taken, clear, end_as_failed, take, wait_for_death, who_wrote
from ablate.record.journal import rows_written
from ablate.record.lock import StoreLock
from ablate.record.parts import PartedData
from ablate.record.paths import AttemptKey, SnapshotKey, StorePaths
from ablate.record.probe_intake import ProbeIntake
from ablate.record.recorder import identity
from ablate.record.schema import SCHEMA_VERSION, SPEC_KEY, VERSION_KEY, factor_types
from ablate.record.tables import as_attempt
from ablate.record.trial_table import FINISHED, Failures, TrialTable

FLUSH_ATTEMPTS = 50
FLUSH_ROWS = 500_000
FLUSH_S = 2.0
"""Ended attempts wait in the journal, where they are safe, for at most so many others, rows or seconds: a flush costs a
part and a rewrite of the table of trials."""


class Store:
    """Made by ``Store.open``; a context manager that closes.

    Attributes:
        remote: the store's URI, if this is the working copy of one (``ablate.record.remote_store``).
        recovered: what a crash had left, in words.
    """

    remote: str | None = None

    def __init__(self, paths: StorePaths, lock: StoreLock, metadata: Mapping[bytes, bytes], grid: GridSpec) -> None:
        self.paths = paths
        self.recovered: list[str] = []
        self._lock = lock
        self._factors = factor_types(grid.factors)
        self._batches = PartedData(paths, paths.batches, metadata)
        self._audits = PartedData(paths, paths.audits, metadata)
        self._artifacts = PartedData(paths, paths.artifacts, metadata)
        self._sketches = PartedData(paths, paths.sketches, metadata)
        self._attempts = PartedData(paths, paths.attempts, metadata)
        self._probes = ProbeIntake(paths, self._factors, metadata)
        self._table = TrialTable(paths.trials, self._factors, metadata)
        self._pending: dict[AttemptKey, Taken] = {}
        self._flushed_at = 0.0

    @classmethod
    def open(cls, root: Path, grid: GridSpec, grid_bytes: bytes) -> Store:
        """Create the store, or open it to go on or to extend it, and finish what a crash left.

        Args:
            root: the store's folder, usually ``runs/<study>``.
            grid: the resolved grid.
            grid_bytes: the grid file as given.

        Returns:
            The locked store. ``recovered`` says in words what a crash had left.

        Raises:
            BadInput: if the folder is something else, or belongs to a grid that this one does not extend.
            StoreError: if the store is locked, full, read-only, damaged, of a newer schema, or a trial of the last
                launch does not end.
        """
        paths = StorePaths(root.absolute())  # trials run in other working directories
        create_folders(paths)
        lock = StoreLock(paths.lock)
        try:
            spec = settle_spec(paths, grid, grid_bytes)
            metadata = {VERSION_KEY: str(SCHEMA_VERSION).encode(), SPEC_KEY: spec.hash.encode()}
            store = cls(paths, lock, metadata, grid)
            store._recover()
        except BaseException:
            lock.release()
            raise
        return store

    def done(self) -> set[str]:
        """Return the ids of trials that need not run again: done and diverged, absorbed ones included."""
        return self._table.finished()

    def snapshots(self) -> set[SnapshotKey]:
        """Return the snapshots that finished trials kept, wherever they lie."""
        done = self.done()
        return {key for key in self.paths.kept_snapshots() if key.trial_id in done}

    def probed(self) -> set[SnapshotKey]:
        """Return the snapshots that need not be looked at again: in the data set, or whole in the journal."""
        return self._probes.done()

    def collect_probes(self, trial_id: str, wait: bool = True) -> None:
        """Bring what probes of a trial's snapshots found here from where it was written: here, it is there."""

    def take_probe(self, trial_id: str, batches: int) -> bool:
        """Take what the probe of a finished trial's snapshot found into the data set.

        Returns:
            Whether it is there; a probe that was broken off has left nothing.

        Raises:
            StoreError: if its lines are damaged, or the disk is full or fails; they are then still in the journal.
        """
        there = self._probes.take(SnapshotKey(trial_id, batches), self._table.rows)
        self._flush_if_due()
        return there

    def row(self, trial_id: str) -> Mapping[str, Any]:
        """Return a trial's row of the table of trials.

        Raises:
            KeyError: it has none.
        """
        return self._table.rows[trial_id]

    def seen(self, column: str) -> set[str]:
        """Return the values that a text column of ``trials`` has over the finished trials."""
        finished = self._table.finished()
        return {row[column] for key, row in self._table.rows.items() if key in finished and row.get(column)}

    def failures(self, trial_id: str) -> Failures:
        """Return how often a trial failed, by its own code and by its surroundings."""
        return self._table.failures(trial_id)

    def next_attempt(self, trial_id: str) -> int:
        """Return the number of the trial's next attempt, from 1; numbers are never used twice."""
        return 1 + self.last_attempts().get(trial_id, 0)

    def last_attempts(self) -> dict[str, int]:
        """Return the number of the last attempt of every trial that left anything: one look at all of the store."""
        keys = {*self._batches.keys, *self._attempts.keys, *self._audits.keys, *self._pending}
        keys |= {*self.paths.journal_attempts(), *self.paths.logged_attempts()}
        last = {trial_id: self._table.last_attempt(trial_id) for trial_id in self._table.rows}
        for trial_id, attempt in keys:
            last[trial_id] = max(attempt, last.get(trial_id, 0))
        return last

    def publish(self) -> None:
        """Bring what trials need, initial weights above all, to where their nodes find it: here, it is there."""

    def collect(self, trial_id: str, attempt: int, wait: bool = True) -> None:
        """Bring an attempt's journal here from where it was written: here, it is there."""

    def rows_written(self, trial_id: str, attempt: int) -> int | None:
        """Return how many batches an attempt that runs has recorded, as far as is known here; None before its first."""
        return rows_written(self.paths.rows(trial_id, attempt))

    def all_rows_written(self) -> dict[AttemptKey, int]:
        """Return what ``rows_written`` says of every attempt in the journal, by one look at it."""
        counts = {key: rows_written(self.paths.rows(*key)) for key in self.paths.journal_attempts()}
        return {key: count for key, count in counts.items() if count is not None}

    def absorb(self, trial_id: str, attempt: int) -> str | None:
        """Take an attempt that ended by itself into the data sets.

        Returns:
            Its status; ``failed`` also if its journal turned out to be damaged. None if it did not end: call ``fail``.

        Raises:
            StoreError: if the disk is full or fails; the attempt is then still in the journal.
        """
        key = AttemptKey(trial_id, attempt)
        if key not in self._pending and not self._table.counts(trial_id, attempt):
            if not self.paths.trial_json(trial_id, attempt).exists():
                return None
            self._take(key)
        self._flush_if_due()
        return str(self._table.rows[trial_id]["status"])

    def fail(self, spec: TrialSpec, attempt: int, kind: FailureKind, error: str) -> str:
        """Record that an attempt failed, on behalf of a process that could not; rows it wrote go to ``attempts``.

        Args:
            spec: the trial.
            attempt: the attempt's number.
            kind: ``code`` and ``infrastructure`` are counted apart, ``memory`` with the latter, ``interrupted`` not.
            error: what went wrong, for the user.

        Returns:
            The trial's status: ``failed``, unless the attempt had ended by itself after all.

        Raises:
            StoreError: if its process still writes, or the disk is full or fails.
        """
        key = AttemptKey(spec.trial_id, attempt)
        wait_for_death(self.paths, key)
        if not self.paths.trial_json(*key).exists() and not self._table.counts(*key):
            end_as_failed(self.paths, key, identity(spec, attempt), kind, error)
        status = self.absorb(*key)
        self.flush()
        return status or "failed"

    def flush(self) -> None:
        """Write all attempts absorbed so far to Parquet and delete their journal files.

        Raises:
            StoreError: if the disk is full or fails; what was not written is still in the journal.
        """
        if self._pending:
            taken = list(self._pending.values())
            self._batches.add({t.entry(t.rows): t.rows for t in taken if t.counts})
            self._attempts.add({t.entry(t.rows): t.rows for t in taken if not t.counts})
            self._audits.add({t.entry(t.audits): t.audits for t in taken if t.audits.num_rows})
            self._artifacts.add({t.entry(t.artifacts): t.artifacts for t in taken if t.artifacts.num_rows})
            self._sketches.add({t.entry(t.sketches): t.sketches for t in taken if t.sketches.num_rows})
            self._table.write()
            discard_superseded(self.paths, {t.key.trial_id for t in taken} & self.done(), self._artifacts)
            for t in taken:
                clear(self.paths, t.key, keep_log=not t.counts, keep_rows=t.damaged)
            self._pending.clear()
        self._probes.flush()
        self._flushed_at = time.monotonic()

    def close(self) -> None:
        """Flush, merge small parts and give the lock back.

        Raises:
            StoreError: if the disk is full or fails; the lock is given back all the same.
        """
        try:
            self.flush()
            for data in (self._batches, self._audits, self._artifacts, self._sketches, self._attempts, self._probes):
                data.merge()
        finally:
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, StoreError):
            self._lock.release()  # the disk just refused; what is not in Parquet is safe in the journal
        else:
            self.close()

    def _flush_if_due(self) -> None:
        rows = sum(taken.rows.num_rows for taken in self._pending.values())
        late = time.monotonic() - self._flushed_at >= FLUSH_S
        waiting = len(self._pending) + len(self._probes.pending)
        if late or rows >= FLUSH_ROWS or waiting >= FLUSH_ATTEMPTS:
            self.flush()

    def _recover(self) -> None:
        keys = self.paths.journal_attempts()
        for key in keys:
            wait_for_death(self.paths, key)
        for path in self.paths.temporaries():
            with store_io(path):
                path.unlink()
        for key in keys:
            if self._table.counts(*key):
                row = self._table.rows[key.trial_id]
                done = row["attempt"] == key.attempt and row["status"] in FINISHED
                discard_superseded(self.paths, {key.trial_id} & self.done(), self._artifacts)
                clear(self.paths, key, keep_log=not done)
                continue
            if not self.paths.trial_json(*key).exists():
                who = who_wrote(self.paths, key)
                if not who:
                    clear(self.paths, key, keep_log=True)
                    continue
                end_as_failed(self.paths, key, who, "infrastructure", "broken off: its process or its launch died")
            self._take(key)
            self.recovered.append(f"trial {key.trial_id}, attempt {key.attempt}: {self._pending[key].end['status']}")
            self._flush_if_due()
        self.flush()
        self._set_strays_aside()
        self.recovered += self._probes.recover(self._table.rows, self.done())

    def _take(self, key: AttemptKey) -> None:
        taken = take(self.paths, key, self._factors, self._table.is_finished(key.trial_id))
        self._pending[key] = taken
        self._table.put(taken.end)

    def _set_strays_aside(self) -> None:
        """Move batches that no finished trial owns to ``attempts``: its row or its journal was deleted by hand."""
        owned = {AttemptKey(i, self._table.rows[i]["attempt"]) for i in self.done()}
        strays = self._batches.keys - owned
        if strays:
            reason = "no finished trial in trials.parquet owns these rows"
            found = self._batches.read(strays)
            self._attempts.add({entry: as_attempt(table, entry.attempt, reason) for entry, table in found.items()})
            self._batches.drop(strays)
            self._artifacts.drop(strays)
            self._sketches.drop(strays)
            self.recovered += [f"trial {key.trial_id}, attempt {key.attempt}: {reason}" for key in sorted(strays)]
