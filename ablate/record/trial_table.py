"""``trials.parquet``: one row per trial, small enough to be rewritten whole."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ablate.errors import Problem, StoreError
from ablate.record.columns import TRIAL_COLUMNS
from ablate.record.disk import store_io
from ablate.record.parquet import damage, write_parquet
from ablate.record.schema import as_level, conform, trials_schema

FINISHED = frozenset({"done", "diverged"})


class Failures(NamedTuple):
    """How often a trial failed: through its own code, and through what surrounds it (node, memory)."""

    code: int
    infrastructure: int


def read_end(path: Path) -> dict[str, Any]:
    """Read ``.trial.json``.

    Raises:
        StoreError: if it cannot be read.
    """
    with store_io(path):
        data = path.read_bytes()
    try:
        row: dict[str, Any] = json.loads(data)
    except ValueError as error:
        raise StoreError(
            Problem(str(path), f"is damaged ({error})", advice="delete it: the trial runs again")
        ) from error
    return row


class TrialTable:
    """The rows of ``trials.parquet``, by trial id.

    A launch writes the table hundreds of times, and most rows are as they were: those are kept as Arrow has them.
    """

    def __init__(self, path: Path, factors: Mapping[str, Any], metadata: Mapping[bytes, bytes]) -> None:
        """Read the table, if it is there.

        Raises:
            StoreError: if it cannot be read.
        """
        self._path = path
        self._factors = factors
        self._metadata = metadata
        self.rows: dict[str, dict[str, Any]] = {}
        if path.exists():
            with damage(path):
                self.rows = {row["trial_id"]: row for row in pq.read_table(path).to_pylist()}
        self._written = trials_schema(factors).empty_table()
        self._new = set(self.rows)  # a factor's levels may have another type than when they were written

    def failures(self, trial_id: str) -> Failures:
        """Count a trial's failed attempts."""
        row = self.rows.get(trial_id, {})
        return Failures(row.get("failures_code", 0), row.get("failures_infrastructure", 0))

    def finished(self) -> set[str]:
        """Ids of the trials that need not run again."""
        return {trial_id for trial_id, row in self.rows.items() if row["status"] in FINISHED}

    def is_finished(self, trial_id: str) -> bool:
        """Say whether a trial need not run again."""
        return trial_id in self.rows and self.rows[trial_id]["status"] in FINISHED

    def counts(self, trial_id: str, attempt: int) -> bool:
        """Say whether this attempt is in the table already, or overtaken by a later one."""
        return self.last_attempt(trial_id) >= attempt

    def last_attempt(self, trial_id: str) -> int:
        """Return the attempt that the trial's row is about; 0 if it has none."""
        return int(self.rows.get(trial_id, {}).get("attempt", 0))

    def put(self, end: Mapping[str, Any]) -> None:
        """Enter an attempt's end as the trial's row, and count it if it failed. A finished trial keeps its row."""
        trial_id = end["trial_id"]
        if self.is_finished(trial_id):
            return
        code, infrastructure = self.failures(trial_id)
        kind = end.get("failure_kind")
        row = {
            **{name: end[name] for name in ("trial_id", "arm", "block", "attempt", "status", "batches")},
            **{f"factor.{name}": as_level(end["factors"].get(name), kind) for name, kind in self._factors.items()},
            **{name: end.get(name) for name in TRIAL_COLUMNS},
            **{f"evaluate.{name}": value for name, value in end["evaluate"].items()},
            "failures_code": code + (kind == "code"),
            "failures_infrastructure": infrastructure + (kind in ("infrastructure", "memory")),
        }
        if isinstance(row["started_utc"], str):
            row["started_utc"] = datetime.fromisoformat(row["started_utc"])
        self.rows[trial_id] = row
        self._new.add(trial_id)

    def write(self) -> None:
        """Replace the file, sorted by (arm, block, trial).

        Raises:
            StoreError: if the disk is full, read-only or fails; the old table is then still there.
        """
        rows = [self.rows[trial_id] for trial_id in self._new]
        names = {name for name in (*self._written.column_names, *chain(*rows)) if name.startswith("evaluate.")}
        schema = trials_schema(self._factors, (name.removeprefix("evaluate.") for name in sorted(names)))
        factors = [f"factor.{name}" for name in self._factors]
        for row in rows:
            row.update({n: as_level(row[n], schema.field(n).type) for n in factors if row.get(n) is not None})
        replaced = pc.is_in(self._written["trial_id"], pa.array(self._new, pa.string()))
        kept = conform(self._written.filter(pc.invert(replaced)), schema)
        table = pa.concat_tables([kept, from_rows(rows, schema)]).combine_chunks()
        table = table.sort_by([(name, "ascending") for name in ("arm", "block", "trial_id")])
        write_parquet(self._path, schema, [table], self._metadata)
        self._written, self._new = table, set()


def from_rows(rows: list[dict[str, Any]], schema: Any) -> Any:
    """Return rows as a table; what a row lacks is null. It takes longer than writing them, so each is turned once."""
    return pa.Table.from_pylist(rows, schema=schema)
