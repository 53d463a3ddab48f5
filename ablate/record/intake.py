"""Reading what one attempt left in the journal, and clearing it away once it is in Parquet."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ablate.errors import Problem, StoreError
from ablate.record.columns import FailureKind
from ablate.record.disk import store_io, write_aside
from ablate.record.flock import wait_until_free
from ablate.record.journal import Journal, read_identity, read_journal
from ablate.record.part import Entry
from ablate.record.paths import AttemptKey, StorePaths
from ablate.record.recorder import trial_end
from ablate.record.tables import artifacts_table, as_attempt, audits_table, batches_table, sketches_table
from ablate.record.trial_table import FINISHED, read_end

DYING_S = 10.0
"""How long a trial's process may take to die after its launch did (it promises 2 s)."""


class StillWritten(StoreError):
    """An attempt's process does not end: it hangs in the kernel, or its node lost the cluster, but not the disk."""


@dataclass(frozen=True)
class Taken:
    """One attempt, ready for the data sets.

    Attributes:
        end: the content of ``.trial.json``, corrected if the journal is damaged.
        counts: whether its rows are the trial's (else they go to ``attempts``).
        rows: table of its batches.
        audits: table of its audits, of every attempt: a finding is evidence however the attempt ended.
        artifacts: table of its artifacts; empty unless it counts.
        sketches: table of its sketches; empty unless it counts.
        damaged: whether its rows are to be kept as a file for inspection.
    """

    end: Mapping[str, Any]
    counts: bool
    rows: Any
    audits: Any
    artifacts: Any
    sketches: Any
    damaged: bool

    @property
    def key(self) -> AttemptKey:
        """Trial id and attempt."""
        return AttemptKey(self.end["trial_id"], self.end["attempt"])

    def entry(self, table: Any) -> Entry:
        """Describe one of the two tables to a data set."""
        return Entry(self.end["arm"], self.end["block"], *self.key, rows=table.num_rows)


def take(paths: StorePaths, key: AttemptKey, factors: Mapping[str, Any], finished: bool) -> Taken:
    """Read an attempt that has ended.

    Args:
        paths: the store.
        key: the attempt.
        factors: Arrow types of the factors.
        finished: whether an earlier attempt finished the trial; this one is then superfluous.

    Returns:
        The attempt. One that ended well but whose journal is damaged counts as failed by infrastructure.

    Raises:
        StoreError: if its end, its audits, its artifacts or its sketches cannot be read.
    """
    end = read_end(paths.trial_json(*key))
    journal, damage = _rows(paths, key)
    if not damage and end["status"] in FINISHED and len(journal.rows) != end["batches"]:
        damage = f"{paths.rows(*key)} holds {len(journal.rows)} of {end['batches']} recorded batches"
    if damage and end["status"] in FINISHED:
        end = {**end, "status": "failed", "failure_kind": "infrastructure", "error": damage, "evaluate": {}}
        end["batches"] = len(journal.rows)
    counts = end["status"] in FINISHED and not finished
    rows = batches_table(end, journal, factors)
    if not counts:
        why = "an earlier attempt finished the trial" if finished else f"{end['failure_kind']}: {end['error']}"
        rows = as_attempt(rows, key.attempt, why, journal.identity.get("host"))
    audits = audits_table(end, paths.audit_lines(*key), factors)
    artifacts = artifacts_table(end, paths.artifact_lines(*key), factors)
    sketches = sketches_table(end, paths.sketch_lines(*key), factors)
    if not counts:
        artifacts, sketches = artifacts.slice(0, 0), sketches.slice(0, 0)
    return Taken(end, counts, rows, audits, artifacts, sketches, bool(damage))


def end_as_failed(paths: StorePaths, key: AttemptKey, who: Mapping[str, Any], kind: FailureKind, error: str) -> None:
    """Write the ``.trial.json`` that an attempt's process could not write.

    Raises:
        StoreError: if the disk is full or fails.
    """
    columns = {"failure_kind": kind, "error": error}
    write_aside(paths.trial_json(*key), trial_end(who, len(_rows(paths, key)[0].rows), "failed", {}, columns))


def who_wrote(paths: StorePaths, key: AttemptKey) -> dict[str, Any]:
    """Return what a journal says of its attempt: trial_id, attempt, arm, block, factors; empty if it says nothing."""
    rows = paths.rows(*key)
    who = read_identity(rows) if rows.exists() else {}
    return {name: value for name, value in who.items() if name not in ("pid", "host")}


def wait_for_death(paths: StorePaths, key: AttemptKey) -> None:
    """Wait until no process writes an attempt's rows.

    Raises:
        StillWritten: if one still does after ``DYING_S`` seconds.
    """
    path = paths.rows(*key)
    if not wait_until_free(str(path), DYING_S):
        who = read_identity(path)
        pid, host = who.get("pid", "unknown"), who.get("host", "an unknown machine")
        where = f"trial {key.trial_id}, attempt {key.attempt}"
        advice = f"end it there (`kill {pid}`), then run the same command again"
        raise StillWritten(Problem(where, f"its process {pid} on {host} still writes {path}", advice=advice))


def cut_off(paths: StorePaths, key: AttemptKey) -> None:
    """Part an attempt's rows from a process that still writes them: what is there counts, what it adds reaches nobody.

    The journal is replaced by a copy, so that the process writes to a file without a name. It finds that out at its
    next checkpoint or at its end, and leaves neither (``JournalWriter.check_own``).

    Raises:
        StoreError: if the disk is full or fails.
    """
    rows = paths.rows(*key)
    with store_io(rows):
        write_aside(rows, rows.read_bytes())


def clear(paths: StorePaths, key: AttemptKey, *, keep_log: bool, keep_rows: bool = False) -> None:
    """Delete an attempt's journal files; a log that says something, and damaged rows, move to ``attempts`` if wanted.

    Raises:
        StoreError: if the file system refuses.
    """
    rows, log = paths.rows(*key), paths.log(*key)
    with store_io(paths.journal):
        if keep_rows and rows.exists():
            os.replace(rows, paths.damaged_rows(*key))
        if keep_log and log.exists() and log.stat().st_size:
            os.replace(log, paths.kept_log(*key))
        for path in paths.journal_files(*key):
            path.unlink(missing_ok=True)


def _rows(paths: StorePaths, key: AttemptKey) -> tuple[Journal, str]:
    path = paths.rows(*key)
    if not path.exists():
        return Journal.empty(), ""
    try:
        return read_journal(path), ""
    except StoreError as error:
        return Journal.empty(), str(error)
