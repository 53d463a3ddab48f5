"""Sketches in the store: one per trial and batch, every bit, however many attempts it took; and check C11."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ablate.errors import StoreError
from ablate.record.check import check
from ablate.record.reader import Run
from ablate.record.recorder import Recorder
from ablate.record.store import Store
from tests.record.conftest import make_grid, make_spec

GIVEN = b"study: demo\n"
SPEC = make_spec("fast")
PROMISED = (-1, 1, 3)  # every 2 of 4 batches


def values(batch: int) -> np.ndarray:
    return np.random.default_rng(batch + 1).standard_normal(256)


def attempt(store: Store, number: int, batches: tuple[int, ...] = PROMISED, end: str = "done", **columns: int) -> None:
    with Recorder(store.paths, SPEC, number) as recorder:
        for batch in range(-1, 4):
            if batch >= 0:
                recorder.record(batch, 0.5, 0.01, {})
            if batch in batches:
                recorder.sketch(batch, 1000, values(batch))
        if end == "failed":
            recorder.finish("failed", failure_kind="code", error="x")
        else:
            recorder.finish(end, **{"sketch_every": 2, **columns})  # type: ignore[arg-type]


def open_store(root: Path) -> Store:
    return Store.open(root, make_grid(), GIVEN)


def one_attempt(root: Path, batches: tuple[int, ...] = PROMISED, end: str = "done", **columns: int) -> Run:
    with open_store(root) as store:
        attempt(store, 1, batches, end, **columns)
        store.absorb(SPEC.trial_id, 1)
    return Run(root)


def findings(run: Run) -> list[str]:
    found = [finding for finding in check(run) if finding.code == "C11"]
    assert all(finding.severity == "error" for finding in found)
    return [f"{finding.where}: {finding.found}".removeprefix(f"trial {SPEC.trial_id}, ") for finding in found]


def rewrite(root: Path, change: object) -> None:
    (path,) = (root / "sketches").iterdir()
    table, metadata = pq.ParquetFile(path).read(), pq.read_metadata(path).metadata
    with pq.ParquetWriter(path, table.schema) as writer:
        writer.write_table(change(table))  # type: ignore[operator]
        writer.add_key_value_metadata({k: v for k, v in metadata.items() if k.startswith(b"ablate")})


def with_values(table: pa.Table, at: int, new: list[float]) -> pa.Table:
    rows = table["values"].to_pylist()
    rows[at] = new
    index = table.schema.get_field_index("values")
    return table.set_column(index, table.schema.field("values"), pa.array(rows, table.schema.field("values").type))


def test_every_bit_comes_back(root):
    run = one_attempt(root)
    rows = run.sketches().to_pylist()
    assert [row["batch_index"] for row in rows] == [-1, 1, 3]
    assert {key: rows[0][key] for key in ("trial_id", "arm", "block", "factor.lr", "attempt", "parameters")} == {
        **{"trial_id": SPEC.trial_id, "arm": "fast", "block": 0, "factor.lr": 0.1, "attempt": 1, "parameters": 1000}
    }
    for row in rows:
        assert np.array(row["values"]).tobytes() == values(row["batch_index"]).tobytes()
    assert check(run) == []


def test_a_repeated_trial_has_each_sketch_once(root):
    with open_store(root) as store:
        attempt(store, 1, end="failed")
        store.absorb(SPEC.trial_id, 1)
        assert Run(root).sketches().num_rows == 0
        attempt(store, 2)
        store.absorb(SPEC.trial_id, 2)
        attempt(store, 3)  # superfluous
        store.absorb(SPEC.trial_id, 3)
    rows = Run(root).sketches(["attempt", "batch_index"]).to_pylist()
    assert [(row["attempt"], row["batch_index"]) for row in rows] == [(2, batch) for batch in PROMISED]
    assert findings(Run(root)) == []


def test_a_resumed_attempt_has_the_earlier_ones_up_to_the_checkpoint(root):
    with open_store(root) as store:
        with Recorder(store.paths, SPEC, 1) as recorder:
            recorder.sketch(-1, 1000, values(-1))
            for batch in (0, 1, 2):
                recorder.record(batch, 0.5, 0.01, {})
                if batch == 1:
                    recorder.sketch(batch, 1000, values(batch))
                    recorder.keep_for_resume()
        store.fail(SPEC, 1, "infrastructure", "died")
        with Recorder(store.paths, SPEC, 2) as recorder:
            recorder.sketch(-1, 1000, values(-1))  # made again: a loop's model is initialised before it goes on
            recorder.take_over(1, 2)
            for batch in (2, 3):
                recorder.record(batch, 0.5, 0.01, {})
            recorder.sketch(3, 1000, values(3))
            recorder.finish("done", sketch_every=2, resumed_at=2)
        store.absorb(SPEC.trial_id, 2)
    rows = Run(root).sketches().to_pylist()
    assert [(row["batch_index"], row["attempt"]) for row in rows] == [(-1, 2), (1, 2), (3, 2)]
    assert np.array(rows[1]["values"]).tobytes() == values(1).tobytes()
    assert findings(Run(root)) == []


def test_parameters_that_are_not_finite_have_no_values(root):
    with open_store(root) as store:
        with Recorder(store.paths, SPEC, 1) as recorder:
            recorder.sketch(-1, 1000, values(-1))
            for batch in range(4):
                recorder.record(batch, 0.5, 0.01, {})
            recorder.sketch(1, 1000, None)
            recorder.sketch(3, 1000, None)
            recorder.finish("done", sketch_every=2)
        store.absorb(SPEC.trial_id, 1)
    assert [row["values"] is None for row in Run(root).sketches().to_pylist()] == [False, True, True]
    assert findings(Run(root)) == []


def test_c11_knows_sketches_that_are_missing(root):
    assert findings(one_attempt(root, (1,))) == ["batch -1: 2 promised sketches are missing"]


@pytest.mark.parametrize("end", ["diverged", "done"])
def test_c11_asks_of_a_trial_only_what_it_promised(root, end):
    """A trial that diverged stopped early; one with an unseen model, or of an older ablate, said nothing."""
    columns = {} if end == "diverged" else {"sketch_every": None}
    run = one_attempt(root, (), end, **columns)  # type: ignore[arg-type]
    assert findings(run) == []


def test_c11_holds_a_resumed_trial_to_its_own_batches(root):
    assert findings(one_attempt(root, (-1, 3), resumed_at=2)) == []
    shutil.rmtree(root)
    assert findings(one_attempt(root, (-1, 1), resumed_at=2)) == ["batch 3: 1 promised sketches are missing"]


def test_c11_knows_sketches_that_are_damaged_or_there_twice(root):
    one_attempt(root)
    sound = next((root / "sketches").iterdir()).read_bytes()
    for change, words in (
        (lambda t: with_values(t, 1, [1.0] * 255), "batch 1: its sketch has 255 numbers, not 256"),
        (lambda t: with_values(t, 2, [np.nan] * 256), "batch 3: its sketch holds a number that is not finite"),
        (lambda t: pa.concat_tables([t, t.slice(0, 1)]), "batch -1: its sketch is there 2 times"),
    ):
        next((root / "sketches").iterdir()).write_bytes(sound)
        rewrite(root, change)
        assert findings(Run(root)) == [words]
    assert "without it a distance of parameters is not known" in str(check(Run(root))[0])


def test_a_damaged_line_is_an_error_that_says_what_to_do(root):
    with open_store(root) as store:
        attempt(store, 1)
        path = store.paths.sketch_lines(SPEC.trial_id, 1)
        path.write_bytes(path.read_bytes().replace(b'"values": "', b'"values": "x', 1))
        with pytest.raises(StoreError, match=r"sketches.jsonl: is damaged .*\n    delete it: the trial runs again"):
            store.absorb(SPEC.trial_id, 1)
        path.unlink()


def test_a_line_that_was_never_acknowledged_is_left_out(root):
    with open_store(root) as store:
        attempt(store, 1)
        path = store.paths.sketch_lines(SPEC.trial_id, 1)
        path.write_bytes(path.read_bytes()[:-9])
        store.absorb(SPEC.trial_id, 1)
    assert Run(root).sketches()["batch_index"].to_pylist() == [-1, 1]


def test_sketches_of_no_finished_trial_are_dropped_by_the_next_open(root):
    one_attempt(root)
    (root / "trials" / "trials.parquet").unlink()
    with open_store(root):
        pass
    assert Run(root).sketches().num_rows == 0
