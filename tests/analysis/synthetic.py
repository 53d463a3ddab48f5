"""Synthetic runs written through the real store; a function says what each trial records."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ablate.design.cross import trials
from ablate.design.spec import Arm, Contrast, GridSpec, Margin, Outcome
from ablate.design.trial_spec import GuardPlan, Numerics, TrialSpec
from ablate.record.reader import Run
from ablate.record.recorder import Recorder
from ablate.record.store import Store

BATCHES = 60
LAST = 20


def arm(blocks: int = 6, repeat: str | None = None, perturb: str | None = None, **settings: Any) -> Arm:
    """Return an arm on the first ``blocks`` blocks."""
    numerics = Numerics(perturb=perturb)
    return Arm(numerics=numerics, settings=settings, resources={"CPU": 1.0}, blocks=tuple(range(blocks)), repeat=repeat)


def grid(
    arms: Mapping[str, Arm],
    contrasts: tuple[Contrast, ...] | None = None,
    factors: Mapping[str, tuple[Any, ...]] | None = None,
    margin: Margin | None = None,
    outcome: Outcome | None = None,
    batches: int = BATCHES,
) -> GridSpec:
    """Return a resolved grid; by default the first arm is compared with every other that is no control."""
    plain = [name for name, one in arms.items() if not one.control]
    return GridSpec(
        study="synthetic",
        question="Does the machinery tell right from wrong?",
        trainable="nowhere:Nothing",
        settings={},
        factors=dict(factors or {}),
        arms=dict(arms),
        blocks=tuple(sorted({block for one in arms.values() for block in one.blocks})),
        batches=batches,
        outcome=outcome or Outcome(last=LAST),
        contrasts=tuple(Contrast(arms=(plain[0], name)) for name in plain[1:]) if contrasts is None else contrasts,
        margin=margin,
        guard=GuardPlan(),
    )


@dataclass
class Told:
    """What one trial records.

    Attributes:
        losses: one per batch; shorter than the trial for one that stopped early.
        status: how it ended, ``interrupted`` too; None leaves the trial out of the store.
        audits: rows of ``audits``.
        hashes: columns of ``trials`` that prove the pairing.
        content: batch -> content hash.
        evaluate: held-out outcomes.
        metrics: further columns, one value per batch.
        error: of a failed trial.
        sketches: batch (-1 for the initial weights) -> sketch of the parameters, shape (256,), or None.
        parameters: how many numbers were sketched.
    """

    losses: np.ndarray
    status: str | None = "done"
    audits: list[dict[str, Any]] = field(default_factory=list)
    hashes: dict[str, str | None] = field(default_factory=dict)
    content: dict[int, int] = field(default_factory=dict)
    evaluate: dict[str, float] = field(default_factory=dict)
    metrics: dict[str, np.ndarray] = field(default_factory=dict)
    error: str = ""
    sketches: dict[int, np.ndarray | None] = field(default_factory=dict)
    parameters: int = 1000


def generator(*key: object) -> np.random.Generator:
    """Return a generator seeded by ``key``."""
    return np.random.default_rng(zlib.crc32(repr(key).encode()))


def block_losses(block: int, batches: int = BATCHES, scale: float = 1.0) -> np.ndarray:
    """Return a falling loss curve with the block's own level; equal for every arm."""
    draws = generator("block", block)
    level = 0.1 + 0.02 * draws.random()
    return scale * level * (1 + np.exp(-np.arange(batches) / 10)) * (1 + 0.05 * draws.standard_normal(batches))


def clean(batch: int, count: int = 100) -> dict[str, Any]:
    """Return the audit row of a watched batch without findings."""
    return {"batch_index": batch, "check": "saved_tensors", "verdict": "clean", "count": count}


def overwritten(batch: int, count: int = 19) -> list[dict[str, Any]]:
    """Return the audit rows of a watched batch with overwritten tensors: one for each, one for all the others."""
    finding = {
        "batch_index": batch,
        "check": "saved_tensors",
        "verdict": "overwritten",
        "count": 1,
        "shape": [1, 3, 16, 24],
        "dtype": "float32",
        "version_moved": False,
        "role": "target of MseLossBackward0",
        "near": "outside every module, after parameter last.bias",
        "source": "somewhere/model.py:123 in Model.loss",
    }
    return [clean(batch, 81), *[finding] * count]


def write_run(root: Path, spec: GridSpec, tell: Callable[[TrialSpec], Told]) -> Run:
    """Write a study through the real recorder and store, and open it for reading."""
    with Store.open(root, spec, b"study: synthetic\n") as store:
        for trial in trials(spec):
            told = tell(trial)
            if told.status is None:
                continue
            with Recorder(store.paths, trial, 1) as recorder:
                for batch, loss in enumerate(told.losses):
                    metrics = {name: float(values[batch]) for name, values in told.metrics.items()}
                    watched = spec.guard.covers(batch)
                    order = zlib.crc32(repr((trial.block, batch)).encode()) if watched else None
                    content = told.content.get(batch, order) if watched else None
                    recorder.record(batch, float(loss), 0.001, metrics, order, content)
                for batch, values in told.sketches.items():
                    recorder.sketch(batch, told.parameters, values)
                for row in told.audits:
                    recorder.audit(**row)
                if told.status in ("failed", "interrupted"):
                    recorder.close()
                    store.fail(trial, 1, "code" if told.status == "failed" else "interrupted", told.error)
                    continue
                same = {
                    "initial_hash": f"weights{trial.block}",
                    "data_hash": "data",
                    "draw_hash": f"draws{trial.block}",
                    "order_hash": f"order{trial.block}",
                    "source_hash": "code",
                    "host": "here",
                }
                recorder.finish(told.status, evaluate=told.evaluate, **{**same, **told.hashes})
            store.absorb(trial.trial_id, 1)
    return Run(root)


PARAMETERS = ("conv1.weight", "conv1.bias", "last.weight")
FLOAT32 = 2.0**-24


def distance(
    batch: int, quantity: str, name: str, error: float = 1e-7, scale: float = 2.0, bound: float = 1e-5, **columns: Any
) -> dict[str, Any]:
    """Return the audit row of one value: its distance from float64, by default 1 % of what rounding explains."""
    row = {"batch_index": batch, "check": "distance", "verdict": "rounding", "count": 1, "quantity": quantity}
    row |= {"name": name, "reference": "plain", "error": error, "scale": scale, "bound": bound, "roundoff": FLOAT32}
    return row | {"anchor": None if quantity == "update" else 0.5 * scale} | columns


def audit(
    batches: tuple[int, ...] = (0, 1, 2), roundoff: float = FLOAT32, dtype: str = "float32", **columns: Any
) -> list[dict[str, Any]]:
    """Return the audit rows of a trial without a fault; ``columns`` go into every distance."""
    rows = []
    for batch in batches:
        rows.append({"batch_index": batch, "check": "draw_state", "verdict": "clean", "near": "torch", "detail": "ab"})
        rows.append(distance(batch, "loss", "model", roundoff=roundoff, **columns))
        for name in PARAMETERS:
            rows += [distance(batch, what, name, roundoff=roundoff, **columns) for what in ("gradient", "update")]
    rows.append({"batch_index": 0, "check": "slope", "verdict": "clean", "count": 3, "quantity": "gradient"})
    rows.append({"batch_index": 1, "check": "continuity", "verdict": "clean", "count": 9, "quantity": "state"})
    rows.append({"batch_index": 0, "check": "precision", "verdict": "clean", "roundoff": roundoff, "dtype": dtype})
    return rows


def changed(rows: list[dict[str, Any]], where: Mapping[str, Any], **columns: Any) -> list[dict[str, Any]]:
    """Return rows of which those that agree with ``where`` have other columns; there must be one."""
    hit = [all(row.get(name) == value for name, value in where.items()) for row in rows]
    assert any(hit), where
    return [row | columns if this else row for row, this in zip(rows, hit, strict=True)]
