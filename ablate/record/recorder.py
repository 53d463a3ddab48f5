"""What a trial's process records: batches as they end, audits as they are made, and at last its own end."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from ablate.design.trial_spec import TrialSpec
from ablate.errors import Problem, StoreError, nearest
from ablate.record.columns import ARTIFACT_COLUMNS, AUDIT_COLUMNS, FAILURE_KINDS, STATUSES, TRIAL_COLUMNS, Status
from ablate.record.disk import store_io, write_aside
from ablate.record.journal import HAS_CONTENT, HAS_ORDER, JournalWriter, read_journal
from ablate.record.json_lines import JsonLines, jsonable, read_lines
from ablate.record.paths import StorePaths
from ablate.record.sketch import Array, encode


def identity(spec: TrialSpec, attempt: int) -> dict[str, Any]:
    """Return what names one attempt in every file that it writes."""
    return {
        "trial_id": spec.trial_id,
        "attempt": attempt,
        "arm": spec.arm,
        "block": spec.block,
        "factors": dict(spec.factors),
    }


def trial_end(
    who: Mapping[str, Any],
    batches: int,
    status: Status,
    evaluate: Mapping[str, float],
    columns: Mapping[str, Any],
) -> bytes:
    """Return the content of ``.trial.json``; ``who`` is what ``identity`` gave.

    Raises:
        ValueError: on an unknown status, column or failure kind.
    """
    if status not in STATUSES:
        raise ValueError(f"status {status!r} is none of {', '.join(STATUSES)}")
    kind = columns.get("failure_kind")
    if (kind in FAILURE_KINDS) != (status == "failed"):
        raise ValueError(
            f"status {status!r} with failure_kind {kind!r}: one of {FAILURE_KINDS} with 'failed', else none"
        )
    _known(columns, TRIAL_COLUMNS)
    row = {**who, "status": status, "batches": batches, **columns, "evaluate": dict(evaluate)}
    return json.dumps(row, default=jsonable, indent=1).encode()


class Recorder:
    """One attempt at one trial, seen from the process that runs it."""

    def __init__(self, paths: StorePaths, spec: TrialSpec, attempt: int) -> None:
        """Begin an attempt. The store must have been opened once before, by `ablate launch` or `ablate trial`.

        Raises:
            StoreError: if this attempt was begun already, or the disk is full, read-only or fails.
        """
        self._paths = paths
        self._spec = spec
        self._attempt = attempt
        self._next = 0
        self._last_order: int | None = None
        self._audits = JsonLines(paths.audit_lines(spec.trial_id, attempt))
        self._artifacts = JsonLines(paths.artifact_lines(spec.trial_id, attempt))
        self._sketches = JsonLines(paths.sketch_lines(spec.trial_id, attempt))
        self._journal = JournalWriter(paths.rows(spec.trial_id, attempt), identity(spec, attempt))

    @property
    def batches(self) -> int:
        """How many batches are recorded."""
        return self._next

    def record(
        self,
        batch_index: int,
        loss: float,
        duration_s: float,
        metrics: Mapping[str, float],
        order_hash: int | None = None,
        content_hash: int | None = None,
    ) -> None:
        """Record one batch. When this returns, the row survives the death of any process on this machine.

        Raises:
            ValueError: if ``batch_index`` is not the next one.
            BadInput: if the metrics are not those of batch 0, or a value is no number.
            StoreError: if the disk is full or fails.
        """
        if batch_index != self._next:
            raise ValueError(f"batch_index {batch_index}, but the next one is {self._next}")
        self._journal.append(batch_index, loss, duration_s, metrics, order_hash, content_hash)
        self._next = batch_index + 1
        if order_hash is not None:
            self._last_order = order_hash

    def audit(self, **columns: Any) -> None:
        """Record one audit; the columns are those of ``columns.AUDIT_COLUMNS``.

        Raises:
            ValueError: on an unknown column.
            StoreError: if the disk is full or fails.
        """
        _known(columns, AUDIT_COLUMNS)
        self._audits.append(columns)

    def artifact(self, **columns: Any) -> None:
        """Record one artifact; the columns are those of ``columns.ARTIFACT_COLUMNS``, its file is already there.

        Raises:
            ValueError: on an unknown column.
            StoreError: if the disk is full or fails.
        """
        _known(columns, ARTIFACT_COLUMNS)
        self._artifacts.append(columns)

    def sketch(self, batch_index: int, parameters: int, values: Array | None) -> None:
        """Record the sketch of the parameters after a batch.

        Args:
            batch_index: the batch; -1 for the initial weights.
            parameters: how many numbers were sketched.
            values: the sketch, shape (256,); None if a parameter was not finite.

        Raises:
            StoreError: if the disk is full or fails.
        """
        text = None if values is None else encode(values)
        self._sketches.append({"batch_index": batch_index, "parameters": parameters, "values": text})

    def finish(self, status: Status, *, evaluate: Mapping[str, float] | None = None, **columns: Any) -> None:
        """End the attempt: make its rows durable, then acknowledge it by ``.trial.json``.

        Args:
            status: ``done``, ``diverged`` (ended early by a loss that is not finite) or ``failed``.
            evaluate: held-out outcomes by name.
            columns: columns of ``columns.TRIAL_COLUMNS``; ``failed`` needs ``failure_kind``.

        Raises:
            ValueError: on an unknown status or column.
            StoreError: if the disk is full or fails, or the launch has gone on without this attempt.
        """
        self._journal.check_own()
        if self._last_order is not None:
            columns.setdefault("order_hash", f"{self._last_order:016x}")
        content = trial_end(identity(self._spec, self._attempt), self._next, status, evaluate or {}, columns)
        self._journal.sync()
        self._audits.sync()
        self._artifacts.sync()
        self._sketches.sync()
        write_aside(self._paths.trial_json(self._spec.trial_id, self._attempt), content)
        self.close()  # last: whoever sees the rows unlocked and no .trial.json takes the attempt for broken off

    def keep_for_resume(self) -> None:
        """Link this attempt's journal into its checkpoint's folder, where it outlives the attempt.

        Raises:
            StoreError: if the disk fails, its file system has no hard links, or the launch has gone on without this
                attempt: a checkpoint of it would stand in the way of the next one's.
        """
        self._journal.check_own()
        trial, attempt = self._spec.trial_id, self._attempt
        links = {
            self._paths.rows(trial, attempt): self._paths.checkpoint_rows(trial, attempt),
            self._paths.audit_lines(trial, attempt): self._paths.checkpoint_audits(trial, attempt),
            self._paths.artifact_lines(trial, attempt): self._paths.checkpoint_artifacts(trial, attempt),
            self._paths.sketch_lines(trial, attempt): self._paths.checkpoint_sketches(trial, attempt),
        }
        for source, link in links.items():
            with store_io(link):
                link.parent.mkdir(parents=True, exist_ok=True)
                if source.exists() and not link.exists():
                    os.link(source, link)

    def take_over(self, attempt: int, batches: int) -> None:
        """Begin with the first ``batches`` rows of an earlier attempt, from which a checkpoint was made.

        Raises:
            StoreError: if they are not all there, or the disk is full or fails.
        """
        kept = self._paths.checkpoint_rows(self._spec.trial_id, attempt)
        journal = read_journal(kept)
        if len(journal.rows) < batches:
            found = f"holds {len(journal.rows)} rows, but the checkpoint was made after {batches}"
            raise StoreError(Problem(str(kept), found, advice=f"delete {kept.parent}: the trial then begins again"))
        for row in journal.rows[:batches]:
            self.record(
                int(row["batch_index"]),
                float(row["loss"]),
                float(row["duration_s"]),
                {name: float(row[f"metric.{name}"]) for name in journal.metrics},
                int(row["order_hash"]) if row["flags"] & HAS_ORDER else None,
                int(row["content_hash"]) if row["flags"] & HAS_CONTENT else None,
            )
        for columns in read_lines(self._paths.checkpoint_audits(self._spec.trial_id, attempt)):
            if columns["batch_index"] < batches:
                self.audit(**columns)
        for columns in read_lines(self._paths.checkpoint_artifacts(self._spec.trial_id, attempt)):
            if columns["batch_index"] < batches:
                self.artifact(**columns)  # the earlier attempt's file is this one's: files go when a trial is finished

        for columns in read_lines(self._paths.checkpoint_sketches(self._spec.trial_id, attempt)):
            if 0 <= columns["batch_index"] < batches:  # each attempt sketches its initial weights itself
                self._sketches.append(columns)

    def close(self) -> None:
        """Close the files without ending the attempt: it counts as broken off."""
        self._journal.close()
        self._audits.close()
        self._artifacts.close()
        self._sketches.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Unrecorded(Recorder):
    """Stands in for a recorder in a worker that follows another: what is recorded is recorded once."""

    def __init__(self) -> None:
        pass

    def take_over(self, attempt: int, batches: int) -> None:
        """Take over nothing."""

    def close(self) -> None:
        """Close nothing."""


def _known(columns: Mapping[str, Any], allowed: Mapping[str, Any]) -> None:
    for name in columns:
        if name not in allowed:
            raise ValueError(
                f"unknown column {name!r}; did you mean {nearest(name, allowed)!r}? known: {list(allowed)}"
            )
