"""Sketches in a trial: after the batches that the plan names, without a bit of difference to the training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from spec_factory import make_task

from ablate.design.trial_spec import CheckpointPlan, GuardPlan, Numerics, SketchPlan
from ablate.record.journal import read_journal
from ablate.record.json_lines import read_lines
from ablate.record.paths import StorePaths
from ablate.record.sketch import decode, distance
from ablate.trial.runner import run_trial

torch.set_num_threads(1)


def run(root: Path, trainable: str, attempt: int = 1, **changes: Any) -> dict[str, Any]:
    changes = {"batches": 10, "guard": GuardPlan(first=3, every=4), "sketches": SketchPlan(every=4), **changes}
    task = make_task(root, f"small_trainables:{trainable}", attempt=attempt, **changes)
    end = run_trial(task)
    paths, trial = StorePaths(root), task.spec.trial_id
    rows, audits = paths.rows(trial, attempt), paths.audit_lines(trial, attempt)
    return {
        "end": end,
        "paths": paths,
        "rows": read_journal(rows).rows if rows.exists() else None,
        "columns": json.loads(paths.trial_json(trial, attempt).read_text()),
        "audits": audits.read_text() if audits.exists() else "",
        "sketches": read_lines(paths.sketch_lines(trial, attempt)),
    }


def batches(found: dict[str, Any]) -> list[int]:
    return [row["batch_index"] for row in found["sketches"]]


@pytest.mark.parametrize("trainable", ["Line", "function_line", "Duel"])
def test_sketches_change_no_bit_of_the_training(tmp_path: Path, trainable: str) -> None:
    with_sketches = run(tmp_path / "a", trainable)
    without = run(tmp_path / "b", trainable, sketches=SketchPlan(every=0))
    assert with_sketches["end"].status == without["end"].status == "done"
    assert batches(with_sketches) == [-1, 3, 7, 9]
    assert batches(without) == []
    assert (with_sketches["columns"]["sketch_every"], without["columns"]["sketch_every"]) == (4, 0)
    for column in ("loss", "batch_index", "flags", "order_hash", "content_hash"):
        assert with_sketches["rows"][column].tobytes() == without["rows"][column].tobytes(), column
    for column in ("initial_hash", "data_hash", "order_hash", "draw_hash"):
        assert with_sketches["columns"][column] == without["columns"][column], column
    assert with_sketches["audits"] == without["audits"]


def test_they_are_of_the_weights_after_the_batch(tmp_path: Path) -> None:
    """A longer trial passes through the weights at which a shorter one ends; equal weights are exactly 0 apart."""
    long, short = run(tmp_path / "a", "Line"), run(tmp_path / "b", "Line", batches=8)
    assert batches(short) == [-1, 3, 7]
    first, later = (decode(long["sketches"][at]["values"]) for at in (0, 1))
    assert distance(first, later) > 0
    for mine, theirs in zip(long["sketches"][:3], short["sketches"], strict=True):
        assert distance(decode(mine["values"]), decode(theirs["values"])) == 0.0


def test_the_initial_weights_are_the_arms_own(tmp_path: Path) -> None:
    plain = run(tmp_path / "a", "Line")["sketches"][0]
    perturbed = run(tmp_path / "b", "Line", numerics=Numerics(perturb="one-ulp"))["sketches"][0]
    assert plain["batch_index"] == perturbed["batch_index"] == -1
    apart = distance(decode(plain["values"]), decode(perturbed["values"]))
    assert 0 < apart < 1e-6


def test_a_trial_that_diverges_has_no_sketch_of_that_batch(tmp_path: Path) -> None:
    found = run(tmp_path, "Line", settings={"bad_at": 3, "how": "nan"})
    assert found["end"].status == "diverged"
    assert batches(found) == [-1]


def test_parameters_that_are_not_finite_leave_no_values(tmp_path: Path) -> None:
    found = run(tmp_path, "function_overflow")
    assert found["end"].status == "done"
    assert batches(found) == [-1, 3, 7, 9]
    assert [row["values"] is None for row in found["sketches"]] == [False, True, True, True]


def test_a_model_that_was_never_handed_over_has_none_and_promises_none(tmp_path: Path) -> None:
    found = run(tmp_path, "function_without_a_model")
    assert found["end"].status == "done"
    assert batches(found) == []
    assert found["columns"].get("sketch_every") is None


@pytest.mark.parametrize("trainable", ["Careful", "function_careful"])
def test_a_resumed_trial_has_the_sketches_of_an_undisturbed_one(
    tmp_path: Path, trainable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = {"checkpoint": CheckpointPlan(batches=3), "settings": {"die_at": 8}}
    broken = run(tmp_path / "a", trainable, **plan)
    assert batches(broken) == [-1, 3, 7]
    for file in broken["paths"].journal.iterdir():
        file.unlink()  # as the store does once it has set the attempt aside
    monkeypatch.setenv("alive", "1")
    resumed = run(tmp_path / "a", trainable, attempt=2, **plan)
    undisturbed = run(tmp_path / "b", trainable, **plan)
    assert resumed["columns"]["resumed_at"] == 6
    assert sorted(resumed["sketches"], key=lambda row: row["batch_index"]) == undisturbed["sketches"]


def test_every_bit_is_in_the_journal(tmp_path: Path) -> None:
    row = run(tmp_path, "Line")["sketches"][-1]
    values = decode(row["values"])
    assert values.shape == (256,)
    assert values.dtype == np.float64
    assert 0 < np.count_nonzero(values) <= row["parameters"]  # a small model: most buckets are empty
