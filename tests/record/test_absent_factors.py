"""A factor that does not exist for a trial is null in every data set, and its column stays typed."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from ablate.design.cross import trials
from ablate.design.grid import load_grid
from ablate.record.check import check
from ablate.record.reader import Run
from ablate.record.recorder import Recorder
from ablate.record.store import Store
from analysis.gap import gap

GRID = """\
study: demo
question: q
trainable: m:T
blocks: 3
batches: 4
outcome: {last: 2}
factors:
  union:
    - {optimiser: [sgd], nesterov: [true, false], momentum: {levels: [1, 0.5], when: {nesterov: true}}}
    - {optimiser: [adam], steps: [3], name: [x]}
arms: {a: {}, b: {threads: 2}}
contrasts:
  - {arms: [a, b]}
  - {factor: optimiser, levels: [sgd, adam], where: {nesterov: true, momentum: 1, steps: 3, name: x}}
"""


def record(store, spec, loss):
    attempt = store.next_attempt(spec.trial_id)
    with Recorder(store.paths, spec, attempt) as recorder:
        for k in range(spec.batches):
            recorder.record(k, loss, 0.01, {}, order_hash=k, content_hash=7)
        recorder.finish("done", torch="2.13", source_hash="aa", initial_hash="w", data_hash="d", draw_hash="r")
    assert store.absorb(spec.trial_id, attempt) == "done"


def loss_of(spec):
    return 1.0 + (spec.arm == "b") + 10 * (spec.factors["optimiser"] == "adam") + spec.factors.get("momentum", 0)


def write(root, text, folder):
    path = folder / "grid.yaml"
    path.write_text(text)
    grid = load_grid(path)
    with Store.open(root, grid, text.encode()) as store:
        for spec in trials(grid):
            if spec.trial_id not in store.done():
                record(store, spec, loss_of(spec))
    return Run(root)


TYPES = {
    "optimiser": pa.string(),
    "nesterov": pa.bool_(),
    "momentum": pa.float64(),
    "steps": pa.int64(),
    "name": pa.string(),
}


def test_nulls_from_grid_to_verdict(root, tmp_path):
    run = write(root, GRID, tmp_path)
    for table in (run.batches(), run.trials()):
        assert {name: table.schema.field(f"factor.{name}").type for name in TYPES} == TYPES
        rows = table.select([f"factor.{name}" for name in TYPES]).to_pylist()
        assert {tuple(row.values()) for row in rows} == {
            ("sgd", True, 1.0, None, None),
            ("sgd", True, 0.5, None, None),
            ("sgd", False, None, None, None),
            ("adam", None, None, 3, "x"),
        }
    assert run.batches(filter=pc.field("factor.momentum").is_null()).num_rows == 2 * 2 * 3 * 4
    assert check(run) == []
    report = gap(run)
    arms, optimisers = report.contrasts
    assert [(pair.cells, pair.other - pair.reference) for pair in arms.pairs] == [(4, 1.0)] * 3
    assert [(pair.cells, pair.reference, pair.other) for pair in optimisers.pairs] == [(2, 2.5, 11.5)] * 3
    assert report.dropped == ()


def test_a_store_grows_by_a_factor_that_exists_in_added_cells_only(root, tmp_path):
    before = write(root, GRID, tmp_path).batches(["trial_id", "loss"]).to_pylist()
    more = GRID.replace("name: [x]}\n", "name: [x]}\n    - {optimiser: [lion], wd: [0.5]}\n")
    run = write(root, more, tmp_path)
    assert [row for row in run.batches(["trial_id", "loss"]).to_pylist() if row in before] == before
    by_wd = run.batches().group_by("factor.wd").aggregate([("batch_index", "count")]).to_pylist()
    assert {row["factor.wd"]: row["batch_index_count"] for row in by_wd} == {None: 96, 0.5: 24}
    assert {row["factor.wd"] for row in run.trials().to_pylist()} == {None, 0.5}
    assert check(run) == []
