"""The trials of a study as the analysis sees them: every planned one, recorded or not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from ablate.design.trial_spec import Scalar, TrialSpec

STREAMS = {
    "initial_hash": "initial weights",
    "data_hash": "data set",
    "order_hash": "data order",
    "draw_hash": "random draws",
}
"""Columns of ``trials`` that must be equal in two trials for their outcomes to be comparable, and their names."""


@dataclass(frozen=True)
class Trial:
    """One planned trial and what came of it.

    Attributes:
        trial_id: its content hash.
        arm: arm's name.
        block: block's number.
        factors: level of each factor, in the grid's order.
        status: done, diverged, failed, interrupted or missing.
        batches: batches recorded.
        hashes: column of ``STREAMS`` -> hash, where recorded.
        failure: kind and first line of the error of a failed trial.
    """

    trial_id: str
    arm: str
    block: int
    factors: tuple[tuple[str, Scalar], ...] = ()
    status: str = "done"
    batches: int = 0
    hashes: Mapping[str, str] = field(default_factory=dict)
    failure: str = ""

    def level(self, column: str) -> Scalar | None:
        """Return the arm's name for ``"arm"``, else the level of that factor; None where it does not exist."""
        return self.arm if column == "arm" else dict(self.factors).get(column)

    @property
    def trouble(self) -> str:
        """Say why the trial has no outcome; empty when it ran to its end."""
        if self.status == "failed":
            return f"failed ({self.failure})" if self.failure else "failed"
        if self.status == "interrupted":
            return "interrupted"
        if self.status == "diverged":
            return f"diverged: the loss of batch {self.batches - 1} is not finite"
        return "" if self.status == "done" else "not run"

    def __str__(self) -> str:
        cell = "".join(f", {name} {value}" for name, value in self.factors)
        return f"arm {self.arm}{cell}, block {self.block}"


def join(specs: Iterable[TrialSpec], recorded: pa.Table) -> tuple[Trial, ...]:
    """Join what was planned with what was recorded; a trial without a row is ``missing``.

    Args:
        specs: every planned trial.
        recorded: the ``trials`` data set; of several attempts the last counts.

    Returns:
        tuple[Trial, ...]: one per spec, in the same order.
    """
    columns = ["trial_id", "attempt", "status", "batches", "failure_kind", "error", *STREAMS]
    rows = recorded.select([name for name in columns if name in recorded.column_names]).to_pylist()
    last = {row["trial_id"]: row for row in sorted(rows, key=lambda row: row.get("attempt") or 0)}
    return tuple(_trial(spec, last) for spec in specs)


def _trial(spec: TrialSpec, last: Mapping[str, dict[str, object]]) -> Trial:
    trial_id = spec.trial_id  # a hash of it all: asked for once
    identity = (trial_id, spec.arm, spec.block, tuple(spec.factors.items()))
    row = last.get(trial_id)
    if row is None:
        return Trial(*identity, status="missing")
    kind = str(row.get("failure_kind") or "")
    interrupted = row["status"] == "failed" and kind == "interrupted"
    error = str(row.get("error") or "").strip().splitlines()
    parts = [kind, error[-1].strip() if error else ""]
    return Trial(
        *identity,
        status="interrupted" if interrupted else str(row["status"]),
        batches=int(str(row.get("batches") or 0)),
        hashes={name: str(row[name]) for name in STREAMS if row.get(name) is not None},
        failure=": ".join(part for part in parts if part),
    )
