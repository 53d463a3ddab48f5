"""Artifacts in the store: one per trial, batch and name, however many attempts it took."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ablate.errors import StoreError
from ablate.record.artifact_file import read_arrays, write_arrays
from ablate.record.check import check
from ablate.record.reader import Run
from ablate.record.recorder import Recorder
from ablate.record.store import Store
from tests.record.conftest import make_grid, make_spec

GIVEN = b"study: demo\n"
SPEC = make_spec("fast")


def artifact(recorder: Recorder, store: Store, attempt: int, batch: int, value: float = 1.0) -> None:
    path = store.paths.artifact_file(SPEC.trial_id, attempt, batch)
    digest = write_arrays(path, {"picture": np.full((2, 1, 3, 3), value, np.float16)})
    common = {"batch_index": batch, "file": path.name, "sha256": digest}
    recorder.artifact(name="picture", kind="image", shape=[2, 1, 3, 3], **common)
    recorder.artifact(batch_index=batch, name="gradient_norm", kind="number", shape=[], value=value)
    recorder.artifact(batch_index=batch, name="weight", kind="histogram", shape=[9], low=-1.0, high=1.0, counts=[4, 5])


def attempt(
    store: Store, number: int, batches: tuple[int, ...] = (0, 3), end: str = "done", value: float = 1.0
) -> None:
    with Recorder(store.paths, SPEC, number) as recorder:
        for batch in range(4):
            recorder.record(batch, 0.5, 0.01, {})
            if batch in batches:
                artifact(recorder, store, number, batch, value)
        if end == "failed":
            recorder.finish("failed", failure_kind="code", error="x")
        elif end:
            recorder.finish(end)  # type: ignore[arg-type]


def open_store(root: Path) -> Store:
    return Store.open(root, make_grid(), GIVEN)


def rows(root: Path) -> list[tuple[Any, ...]]:
    return [(r["batch_index"], r["name"], r["value"], r["file"]) for r in Run(root).artifacts().to_pylist()]


def test_rows_and_arrays_come_back_as_they_were(root):
    with open_store(root) as store:
        attempt(store, 1, value=0.25)
        store.absorb(SPEC.trial_id, 1)
    run = Run(root)
    found = run.artifacts().to_pylist()
    assert [(row["batch_index"], row["name"]) for row in found] == [
        (batch, name) for batch in (0, 3) for name in ("picture", "gradient_norm", "weight")
    ]
    assert found[0] | {"sha256": ""} == {
        **{"trial_id": SPEC.trial_id, "arm": "fast", "block": 0, "factor.lr": 0.1, "factor.clip": True, "attempt": 1},
        **{"batch_index": 0, "name": "picture", "kind": "image", "shape": [2, 1, 3, 3]},
        **{"value": None, "low": None, "high": None, "counts": None},
        **{"file": f"{SPEC.trial_id}-1-0.npz", "sha256": ""},
    }
    assert found[1]["value"] == 0.25
    assert found[2]["counts"] == [4, 5]
    assert (run.arrays(found[0]["file"])["picture"] == np.float16(0.25)).all()
    assert check(run) == []


@pytest.mark.parametrize("end", ["failed", "interrupted"])
def test_a_repeated_trial_has_each_artifact_once(root, end):
    """However the first attempt ended, its files are deleted once a later one has finished the trial."""
    with open_store(root) as store:
        attempt(store, 1, end="failed" if end == "failed" else "")
        if end == "failed":
            store.absorb(SPEC.trial_id, 1)
        else:
            store.fail(SPEC, 1, "infrastructure", "died")
        store.flush()
        assert rows(root) == []
        assert len(store.paths.artifact_files_of(SPEC.trial_id)) == 2  # a resume may go on from there
        attempt(store, 2, value=2.0)
        store.absorb(SPEC.trial_id, 2)
    assert [row[:3] for row in rows(root) if row[1] == "gradient_norm"] == [
        (0, "gradient_norm", 2.0),
        (3, "gradient_norm", 2.0),
    ]
    assert {path.name for path in (root / "artifact_files").iterdir()} == {f"{SPEC.trial_id}-2-{k}.npz" for k in (0, 3)}
    assert check(Run(root)) == []


def test_a_resumed_attempt_keeps_the_earlier_files_up_to_its_checkpoint(root):
    with open_store(root) as store:
        with Recorder(store.paths, SPEC, 1) as recorder:
            recorder.record(0, 0.5, 0.01, {})
            artifact(recorder, store, 1, 0)
            recorder.keep_for_resume()
            recorder.record(1, 0.5, 0.01, {})
            artifact(recorder, store, 1, 1)  # after the checkpoint: made again
        store.fail(SPEC, 1, "infrastructure", "died")
        with Recorder(store.paths, SPEC, 2) as recorder:
            recorder.take_over(1, 1)
            for batch in (1, 2, 3):
                recorder.record(batch, 0.5, 0.01, {})
                artifact(recorder, store, 2, batch)
            recorder.finish("done")
        store.absorb(SPEC.trial_id, 2)
    files = [row[3] for row in rows(root) if row[1] == "picture"]
    assert files == [f"{SPEC.trial_id}-{n}-{batch}.npz" for n, batch in ((1, 0), (2, 1), (2, 2), (2, 3))]
    assert sorted(path.name for path in (root / "artifact_files").iterdir()) == sorted(files)
    assert [finding for finding in check(Run(root)) if finding.code == "C10"] == []


def test_a_crash_before_the_files_are_deleted_is_finished_by_the_next_open(root, monkeypatch):
    store = open_store(root)
    attempt(store, 1, end="failed")
    store.absorb(SPEC.trial_id, 1)
    attempt(store, 2)

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("ablate.record.store.discard_superseded", crash)
        store.absorb(SPEC.trial_id, 2)
        with pytest.raises(KeyboardInterrupt):
            store.flush()
    store._lock.release()
    with open_store(root):
        pass
    assert {path.name for path in (root / "artifact_files").iterdir()} == {f"{SPEC.trial_id}-2-{k}.npz" for k in (0, 3)}
    assert len(rows(root)) == 6


def test_a_superfluous_attempt_leaves_no_file(root):
    with open_store(root) as store:
        attempt(store, 1)
        store.absorb(SPEC.trial_id, 1)
        attempt(store, 2)
        store.absorb(SPEC.trial_id, 2)
    assert {row[3] for row in rows(root)} - {None} == {path.name for path in (root / "artifact_files").iterdir()}
    assert all(path.name.startswith(f"{SPEC.trial_id}-1-") for path in (root / "artifact_files").iterdir())


def test_c10_knows_missing_and_damaged_files(root):
    with open_store(root) as store:
        attempt(store, 1)
        store.absorb(SPEC.trial_id, 1)
    first, second = sorted((root / "artifact_files").iterdir())
    first.unlink()
    second.write_bytes(second.read_bytes()[:-3])
    findings = check(Run(root))
    assert [(finding.code, finding.severity) for finding in findings] == [("C10", "error")] * 2
    assert str(findings[0]).startswith(f"C10 error: {first}: is missing\n    restore it from a copy")
    assert str(findings[1]).startswith(f"C10 error: {second}: is damaged: its content is not what the trial wrote")
    with pytest.raises(StoreError, match=r"npz: is missing\n    delete the trial's rows or restore"):
        read_arrays(first)
    second.write_bytes(b"PK\3\4 nonsense")
    with pytest.raises(StoreError, match="npz: is damaged"):
        read_arrays(second)


def test_an_unknown_column_is_a_mistake_of_ours(root):
    with open_store(root) as store, Recorder(store.paths, SPEC, 1) as recorder, pytest.raises(ValueError, match="vale"):
        recorder.artifact(vale=1)
