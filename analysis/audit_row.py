"""One row of ``audits`` as the analysis sees it: what the guard or the comparison with float64 found in one batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Index = np.ndarray[Any, np.dtype[np.int64]]

SIMULATIONS = 8.0
"""A simulation of rounding explains so many times the largest distance it gave: the factor that the audit judges by."""

NUMBERS = ("error", "scale", "bound", "noise", "own_error", "own_bound", "roundoff", "anchor")
WORDS = ("role", "near", "source", "quantity", "name", "reference", "dtype", "detail")
TEXT = ("trial_id", "arm", "check", "verdict", *WORDS)
WHOLE = {"block": 0, "batch_index": 0, "count": 1}
"""Columns of whole numbers, and what they are where nothing was written."""
COLUMNS = (*TEXT, *WHOLE, *NUMBERS, "shape", "attempt")
QUIET_COLUMNS = ("trial_id", "arm", "check", "verdict", *WHOLE, "attempt")
SAVED = "saved_tensors"
_BATCH_BITS = 40
"""A batch index is below 2^40."""


@dataclass(frozen=True)
class AuditRow:
    """One row of ``audits``. Distances are Euclidean norms; one that was not finite is None.

    Attributes:
        trial_id: trial it belongs to.
        arm: that trial's arm.
        block: that trial's block.
        batch_index: batch that was looked at.
        check: ``saved_tensors``, ``undeclared_draws``, ``draw_state``, ``distance``, ``continuity``, ``free``,
            ``slope``, ``precision``, ``departure`` or ``scope``.
        verdict: clean, overwritten, refused (torch's own version check stopped it) or drawn; of a distance equal,
            rounding, reduced, bug, unjudged or confounded (its draws were others).
        count: tensors checked (clean), overwritten, or numbers drawn; values of one quantity that a distance stands
            for, of which it is the worst.
        shape: shape of the tensor.
        near: parameter or module nearby, the name of the draw or of a generator, or an operation.
        source: user's source line, ``file.py:12``.
        role: what it is to the operation whose backward needs it, ``target of MseLossBackward0``; or a file.
        quantity: loss, gradient, update or state.
        name: parameter, player, state entry or direction.
        error: distance of the arm's value from the float64 reference's.
        scale: norm of the reference's value.
        bound: what rounding at ``roundoff`` explains.
        noise: largest distance in a simulation of rounding; None where it was not needed.
        own_error: distance of the arm's own code, run in float64, from the reference; None where it could not run.
        own_bound: what rounding in float64 explains of it.
        roundoff: unit roundoff of the arm's arithmetic.
        anchor: inner product of the reference's value with a fixed vector.
        reference: arm whose settings the reference has.
        dtype: precision in words.
        detail: what was found, in words; or a hash.
        lent: trial whose audit found it for all arms that run its code (``analysis.lent_slopes``), in place of this
            one's; ``arm`` and ``block`` are then that one's. Empty for a trial's own.
    """

    trial_id: str
    arm: str
    block: int
    batch_index: int
    check: str
    verdict: str
    count: int
    shape: tuple[int, ...] = ()
    near: str = ""
    source: str = ""
    role: str = ""
    quantity: str = ""
    name: str = ""
    error: float | None = None
    scale: float | None = None
    bound: float | None = None
    noise: float | None = None
    own_error: float | None = None
    own_bound: float | None = None
    roundoff: float | None = None
    anchor: float | None = None
    reference: str = ""
    dtype: str = ""
    detail: str = ""
    lent: str = ""

    @property
    def allowed(self) -> float | None:
        """What rounding explains, by its bound or by its simulation, whichever is more."""
        if self.noise is None:
            return self.bound
        simulated = SIMULATIONS * self.noise
        return simulated if self.bound is None else max(self.bound, simulated)

    @property
    def share(self) -> float | None:
        """The error as a share of what rounding explains; None where that says nothing."""
        allowed = self.allowed
        if self.error is None or allowed is None:
            return None
        return self.error / allowed if allowed > 0 else (0.0 if self.error == 0 else None)

    @property
    def relative(self) -> float | None:
        """The error as a share of the reference's norm; None without one above zero."""
        return None if self.error is None or not self.scale else _finite(self.error / self.scale)


@dataclass(frozen=True)
class QuietRow(AuditRow):
    """All the watched batches of one trial in which no saved tensor was overwritten; ``count`` is of all of them.

    Attributes:
        batches: how many they are.
    """

    batches: int = 1


def audit_rows(quiet: pa.Table, others: pa.Table) -> tuple[AuditRow, ...]:
    """Return rows of ``audits``, of each trial and batch those of the last attempt that looked at it.

    An attempt that resumed at a checkpoint did not see the first batches; what its forerunner found there still counts.
    A long trial watches every 50th batch, and a row for each without a finding would be nearly all rows there are: one
    stands for all of a trial.

    Args:
        quiet: watched batches in which one check found nothing, with the columns of ``QUIET_COLUMNS``; text may be
            coded.
        others: all other rows, with the columns of ``COLUMNS``.

    Returns:
        tuple: what was quiet first, then the others in their order.
    """
    keys, attempts = _keys(quiet, others), np.concatenate([_whole(one["attempt"]) for one in (quiet, others)])
    if len(attempts) and attempts.min() != attempts.max():
        seen, at = np.unique(keys, return_inverse=True)
        last = np.zeros(len(seen), np.int64)
        np.maximum.at(last, at, attempts)
        kept = attempts == last[at]
        quiet, others = quiet.filter(kept[: len(quiet)]), others.filter(kept[len(quiet) :])
        keys = keys[kept]
    guarded = np.asarray(pc.equal(others["check"], SAVED).fill_null(False))
    alone = np.isin(keys[: len(quiet)], keys[len(quiet) :][guarded])
    folded = _folded(quiet.filter(~alone), keys[: len(quiet)][~alone])
    return (*folded, *_rows(quiet.filter(alone)), *_rows(others))


def _keys(quiet: pa.Table, others: pa.Table) -> Index:
    """Return a number for each trial and batch, equal for equal ones; of one trial they are next to each other."""
    columns = [table["trial_id"] for table in (quiet, others)]
    coded = [c if pa.types.is_dictionary(c.type) else c.dictionary_encode() for c in columns]
    trials = pa.chunked_array([chunk for column in coded for chunk in column.chunks], pa.dictionary("int32", "string"))
    codes = trials.unify_dictionaries().combine_chunks().indices.to_numpy().astype(np.int64)
    return codes << _BATCH_BITS | np.concatenate([1 + _whole(one["batch_index"], -1) for one in (quiet, others)])


def _folded(quiet: pa.Table, keys: Index) -> list[QuietRow]:
    """Return one row for all quiet batches of each trial."""
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    begins = np.flatnonzero(np.diff(keys >> _BATCH_BITS, prepend=-1))
    first = pa.array(order[begins])
    if not len(keys):
        return []
    tensors = np.add.reduceat(_whole(quiet["count"], 1)[order], begins)
    batches = np.add.reduceat(np.diff(keys, prepend=-1) != 0, begins, dtype=np.int64)
    who = (
        _text(quiet["trial_id"].take(first)),
        _text(quiet["arm"].take(first)),
        _whole(quiet["block"].take(first)).tolist(),
    )
    return [
        QuietRow(trial_id, arm, block, 0, SAVED, "clean", count, batches=watched)
        for trial_id, arm, block, count, watched in zip(*who, tensors.tolist(), batches.tolist(), strict=True)
    ]


def _rows(table: pa.Table) -> list[AuditRow]:
    known = {name: table[name] for name in COLUMNS if name in table.column_names}
    values: dict[str, Sequence[Any]] = {name: _text(known[name]) for name in TEXT if name in known}
    values |= {name: _whole(known[name], null).tolist() for name, null in WHOLE.items() if name in known}
    values |= {name: _finite_ones(known[name]) for name in NUMBERS if name in known}
    if "shape" in known:
        values["shape"] = [tuple(shape or ()) for shape in known["shape"].to_pylist()]
    columns = [values.get(field.name, [field.default] * len(table)) for field in fields(AuditRow)]
    return [AuditRow(*row) for row in zip(*columns, strict=True)]


def _finite_ones(column: Any) -> list[float | None]:
    found: list[float | None] = pc.if_else(pc.is_finite(column), column, None).to_pylist()
    return found


def _text(column: Any) -> list[str]:
    words: list[str] = pc.fill_null(column.cast("string"), "").to_pylist()
    return words


def _whole(column: Any, null: int = 0) -> Index:
    return pc.fill_null(column, null).to_numpy().astype(np.int64, copy=False)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
