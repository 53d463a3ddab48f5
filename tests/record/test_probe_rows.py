"""Probes in the store: rows of one snapshot go in whole and once, whatever is broken off; and checks C13 and C14."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from ablate.errors import StoreError
from ablate.record.check import check
from ablate.record.disk import write_aside
from ablate.record.parts import PartedData
from ablate.record.reader import Run
from ablate.record.store import Store
from tests.record.conftest import make_grid, make_spec, run_trial

GIVEN = b"study: demo\n"
SPEC = make_spec("fast")


def open_store(root: Path) -> Store:
    return Store.open(root, make_grid(), GIVEN)


def line(batches: int, name: str, **columns: Any) -> dict[str, Any]:
    fixed = {"dtype": "float64", "device": "cpu", "mode": "train", "seed": 0, "products": 9, "samples": 8}
    return {"batches": batches, "player": "all", "name": name, "probe_hash": "p0", **fixed, **columns}


def found(batches: int, **columns: Any) -> list[dict[str, Any]]:
    return [
        line(batches, "lambda_max", position=0, value=0.1 + batches, bound=1e-12, converged=True, **columns),
        line(batches, "density", position=0, points=[-1.5, 1 / 3], masses=[0.25, 0.75], **columns),
        line(batches, "kind", text="near a saddle", **columns),
        line(batches, "escape_rate", value=float("inf"), **columns),
    ]


def probe(store: Store, batches: int, trial_id: str = SPEC.trial_id, **columns: Any) -> None:
    """Write what the probe of a snapshot would."""
    rows = "".join(json.dumps(row) + "\n" for row in found(batches, **columns))
    write_aside(store.paths.probe_lines(trial_id, batches), rows.encode())


def finished(root: Path, *probed: int) -> Run:
    with open_store(root) as store:
        store.absorb(SPEC.trial_id, run_trial(store, SPEC))
        for batches in probed:
            probe(store, batches)
            assert store.take_probe(SPEC.trial_id, batches)
    return Run(root)


def findings(run: Run) -> list[str]:
    return [str(one).partition("\n")[0] for one in check(run) if one.code in ("C13", "C14")]


def test_every_value_comes_back(root):
    run = finished(root, 0, 4)
    rows = run.probes().to_pylist()
    assert [(row["batches"], row["name"]) for row in rows] == [
        (batches, row["name"]) for batches in (0, 4) for row in found(batches)
    ]
    assert {(row["trial_id"], row["arm"], row["block"], row["factor.lr"], row["factor.clip"]) for row in rows} == {
        (SPEC.trial_id, "fast", 0, 0.1, True)
    }
    edge, density, kind, rate = rows[4:]
    assert (edge["value"], edge["bound"], edge["converged"], edge["position"]) == (4.1, 1e-12, True, 0)
    assert (density["points"], density["masses"], density["value"]) == ([-1.5, 1 / 3], [0.25, 0.75], None)
    assert (kind["text"], kind["position"], kind["converged"]) == ("near a saddle", None, None)
    assert rate["value"] == float("inf")
    assert not list((root / "journal").iterdir())
    assert check(run) == []


def test_the_data_set_of_a_store_without_probes_is_empty(root):
    run = finished(root)
    assert run.probes().num_rows == 0
    assert run.probes(["trial_id", "masses"]).column_names == ["trial_id", "masses"]
    assert check(run) == []


def test_a_store_from_before_probes_opens_and_reads(root):
    finished(root)
    for folder in ("probes", "snapshots"):
        shutil.rmtree(root / folder)
    assert Run(root).probes().num_rows == 0
    assert check(Run(root)) == []
    with open_store(root) as store:
        assert (store.probed(), store.snapshots()) == (set(), set())
    assert finished(root, 0).probes().num_rows == 4


def test_snapshots_are_those_of_finished_trials(root):
    other = make_spec("slow")
    with open_store(root) as store:
        store.absorb(SPEC.trial_id, run_trial(store, SPEC))
        for spec in (SPEC, other):
            store.paths.snapshot(spec.trial_id, 0).touch()
            store.paths.directions(spec.trial_id, 0).touch()
        assert store.snapshots() == {(SPEC.trial_id, 0)}


def test_what_is_taken_is_probed_before_and_after_it_is_written(root):
    finished(root)
    with open_store(root) as store:
        assert not store.take_probe(SPEC.trial_id, 0)
        probe(store, 0)
        assert store.probed() == {(SPEC.trial_id, 0)}  # whole, though not taken in yet
        store.take_probe(SPEC.trial_id, 0)
        store.flush()
        assert not store.paths.probe_lines(SPEC.trial_id, 0).exists()
        assert store.probed() == {(SPEC.trial_id, 0)}
        probe(store, 0, seed=7)  # once more: it counts once
        assert store.take_probe(SPEC.trial_id, 0)
    assert Run(root).probes()["seed"].unique().to_pylist() == [0]


def test_lines_left_by_a_crash_are_taken_in_by_the_next_open(root):
    finished(root)
    with open_store(root) as store:
        probe(store, 0)
        lines = store.paths.probe_lines(SPEC.trial_id, 4)
        lines.with_name(lines.name + ".tmp").write_text("broken off")
        store.paths.probe_lines(make_spec("slow").trial_id, 0).write_text("of a trial that never finished")
    run = Run(root)
    assert [str(one).partition(":")[0] for one in check(run)].count("C7 note") == 3
    with open_store(root) as store:
        assert store.recovered == [f"trial {SPEC.trial_id}: what the probe after 0 batches found"]
        assert store.probed() == {(SPEC.trial_id, 0)}
    assert run.probes().num_rows == 4
    assert not list((root / "journal").iterdir())


@pytest.mark.parametrize("step", ["before the rows", "after the rows"])
def test_a_crash_while_rows_are_written_shows_nothing_twice(root, monkeypatch, step):
    finished(root)
    store = open_store(root)
    store._flushed_at = -1e9  # the next take is written at once
    probe(store, 0)
    add = PartedData.add

    def broken(self: PartedData, attempts: Any) -> None:
        if step == "after the rows":
            add(self, attempts)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(PartedData, "add", broken)
        with pytest.raises(KeyboardInterrupt):
            store.take_probe(SPEC.trial_id, 0)
        assert store.paths.probe_lines(SPEC.trial_id, 0).exists()
        store._lock.release()
    with open_store(root) as again:
        assert again.probed() == {(SPEC.trial_id, 0)}
    assert Run(root).probes().num_rows == 4


def test_the_order_in_which_probes_end_changes_no_byte(tmp_path):
    files = []
    for name, order in (("one", (0, 2, 4)), ("two", (4, 0, 2))):
        root = tmp_path / "runs" / name
        finished(root)
        for batches in order:
            with open_store(root) as store:
                probe(store, batches)
                store.take_probe(SPEC.trial_id, batches)
        (part,) = Run(root).parts(root / "probes")
        files.append(Run(root).probes())
        assert [entry.attempt for entry in part.entries] == [0, 2, 4]
    assert files[0].equals(files[1])


def test_a_damaged_line_is_an_error_that_says_what_to_do(root):
    finished(root)
    with open_store(root) as store:
        for text in ('{"batches": 0, "na', '{"batches": 0, "value": "much"}\n', json.dumps(line(2, "loss")) + "\n", ""):
            path = store.paths.probe_lines(SPEC.trial_id, 0)
            path.write_text(text)
            with pytest.raises(
                StoreError, match=r"probe.jsonl: is damaged .*\n    delete it: the snapshot is looked at"
            ):
                store.take_probe(SPEC.trial_id, 0)
        path.unlink()


def test_probes_of_a_trial_that_runs_again_are_dropped(root):
    run = finished(root, 0)
    (root / "trials" / "trials.parquet").unlink()
    with open_store(root) as store:
        assert f"trial {SPEC.trial_id}: no finished trial in trials.parquet owns what probes found" in store.recovered
        assert store.probed() == set()
    assert run.probes().num_rows == 0


def test_c13_knows_probes_of_no_trial_and_rows_that_are_there_twice(root):
    run = finished(root, 0)
    with open_store(root) as store:
        table = run.probes()
        entry = run.parts(run.paths.probes)[0].entries[0]
        store._probes._data.add({type(entry)("fast", 0, SPEC.trial_id, 99, 4): table})
    assert findings(run) == [
        f"C13 error: trial {SPEC.trial_id}, after 0 batches: {name} is there 2 times"
        for name in ("density[0] of all", "escape_rate of all", "kind of all", "lambda_max[0] of all")
    ]
    (root / "trials" / "trials.parquet").unlink()
    assert f"C13 error: trial {SPEC.trial_id}: no finished trial owns its 8 rows of probes" in findings(run)


def test_c13_knows_that_a_surface_holds_a_projection_of_every_snapshot(root):
    def written(*snapshots: str) -> Run:
        with open_store(root) as store:
            store.absorb(SPEC.trial_id, run_trial(store, SPEC))
            rows = [line(4, "projection", position=0, value=0.5, text=snapshot) for snapshot in snapshots]
            lines = "".join(json.dumps(row) + "\n" for row in rows)
            write_aside(store.paths.probe_lines(SPEC.trial_id, 4), lines.encode())
            assert store.take_probe(SPEC.trial_id, 4)
        return Run(root)

    assert findings(written("a@0", "a@4")) == []
    shutil.rmtree(root)
    doubled = f"C13 error: trial {SPEC.trial_id}, after 4 batches: projection[0] of all is there 2 times"
    assert findings(written("a@0", "a@0")) == [doubled]


def test_c14_knows_probes_that_looked_at_other_data(root):
    """A factor's level may change the data by design; an arm or a later launch may not."""
    arm, level = make_spec("slow"), make_spec("slow", lr=0.2)
    with open_store(root) as store:
        for spec in (SPEC, arm, level):
            store.absorb(spec.trial_id, run_trial(store, spec))
        probe(store, 0)
        probe(store, 0, level.trial_id, probe_hash="p1")
        for batches, spec in ((0, SPEC), (0, level)):
            store.take_probe(spec.trial_id, batches)
        store.flush()
        assert findings(Run(root)) == []
        probe(store, 0, arm.trial_id, probe_hash="p1")
        store.take_probe(arm.trial_id, 0)
    (only,) = findings(Run(root))
    assert only == "C14 error: lr=0.1, clip=true: probes looked at 2 sets of data: p0 (arm fast), p1 (arm slow)"
    assert "delete the folder" in str(check(Run(root))[0])


def test_c14_knows_probes_of_another_mode(root):
    run = finished(root, 0)
    with open_store(root) as store:
        probe(store, 4, mode="eval")
        store.take_probe(SPEC.trial_id, 4)
    (only,) = findings(run)
    assert only == "C14 error: lr=0.1, clip=true: probes looked at the model in modes eval and train"
