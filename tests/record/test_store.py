from __future__ import annotations

import os
import socket
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

from ablate.errors import StoreError
from ablate.record import intake, store
from ablate.record.check import check
from ablate.record.reader import Run
from ablate.record.recorder import Recorder
from ablate.record.store import Store
from tests.record.conftest import make_grid, make_spec, run_trial

GIVEN = b"study: demo  # as given\n"


def test_a_store_holds_the_grid_as_given_and_resolved(root):
    with Store.open(root, make_grid(), GIVEN) as opened:
        assert opened.paths.grid_yaml.read_bytes() == GIVEN
        assert opened.recovered == []
    assert Run(root).grid == make_grid()
    assert not Run(root).trials().num_rows


def test_done_trials_are_kept(root):
    specs = [make_spec(arm, block) for arm in ("slow", "fast") for block in (1, 0)]
    with Store.open(root, make_grid(), GIVEN) as opened:
        for spec in specs:
            assert opened.next_attempt(spec.trial_id) == 1
            assert opened.absorb(spec.trial_id, 1) is None
            assert opened.absorb(spec.trial_id, run_trial(opened, spec)) == "done"
            assert opened.absorb(spec.trial_id, 1) == "done"
            assert spec.trial_id in opened.done()
    with Store.open(root, make_grid(), GIVEN) as opened:
        assert opened.done() == {spec.trial_id for spec in specs}
        assert opened.next_attempt(specs[0].trial_id) == 2
        assert not list(opened.paths.journal.iterdir())
    run = Run(root)
    rows = run.trials().to_pylist()
    assert [(row["arm"], row["block"]) for row in rows] == [("fast", 0), ("fast", 1), ("slow", 0), ("slow", 1)]
    assert {row["evaluate.test_loss"] for row in rows} == {0.5}
    assert {(row["status"], row["batches"], row["torch"], row["order_hash"]) for row in rows} == {
        ("done", 4, "2.13", f"{3:016x}")
    }
    batches = run.batches().to_pylist()
    assert [row["batch_index"] for row in batches] == [0, 1, 2, 3] * 4
    assert [row["loss"] for row in batches[:4]] == [1 / (k + 1) for k in range(4)]
    assert [row["order_hash"] for row in batches[:4]] == [None, 1, 2, 3]
    assert [row["content_hash"] for row in batches[:4]] == [2**64 - 1, None, None, None]
    assert batches[0]["factor.lr"] == 0.1
    assert batches[0]["factor.clip"] is True
    assert check(run) == []


def test_failures_are_counted_apart_and_their_rows_set_aside(root):
    spec = make_spec()
    kinds = [
        ("code", (1, 0)),
        ("infrastructure", (1, 1)),
        ("memory", (1, 2)),
        ("interrupted", (1, 2)),
        ("code", (2, 2)),
    ]
    with Store.open(root, make_grid(), GIVEN) as opened:
        for number, (kind, counts) in enumerate(kinds, start=1):
            with Recorder(opened.paths, spec, number) as recorder:
                recorder.record(0, 0.25, 0.1, {})
                recorder.audit(batch_index=0, verdict="clean")
                opened.paths.log(spec.trial_id, number).write_text("boom\n")
            assert opened.fail(spec, number, kind, f"{kind} went wrong") == "failed"
            assert opened.failures(spec.trial_id) == counts
            assert opened.done() == set()
            assert opened.next_attempt(spec.trial_id) == number + 1
    with Store.open(root, make_grid(), GIVEN) as opened:
        assert opened.failures(spec.trial_id) == (2, 2)
        assert opened.absorb(spec.trial_id, run_trial(opened, spec)) == "done"
        assert opened.failures(spec.trial_id) == (2, 2)
        assert opened.paths.kept_log(spec.trial_id, 1).read_text() == "boom\n"
    run = Run(root)
    assert [(r["attempt"], r["reason"]) for r in run.attempts().to_pylist()] == [
        (n, f"{kind}: {kind} went wrong") for n, (kind, _) in enumerate(kinds, start=1)
    ]
    assert sorted(run.audits()["attempt"].to_pylist()) == [1, 2, 3, 4, 5]
    (row,) = run.trials().to_pylist()
    assert (row["status"], row["attempt"], row["failure_kind"], row["error"]) == ("done", 6, None, None)


def test_a_failed_trial_shows_its_error(root):
    spec = make_spec()
    with Store.open(root, make_grid(), GIVEN) as opened:
        assert opened.fail(spec, 1, "infrastructure", "the node is gone") == "failed"  # it left nothing at all
    (row,) = Run(root).trials().to_pylist()
    assert (row["status"], row["error"], row["batches"]) == ("failed", "the node is gone", 0)
    assert not Run(root).batches().num_rows


def test_an_unknown_kind_of_failure_is_refused(root):
    with Store.open(root, make_grid(), GIVEN) as opened, pytest.raises(ValueError, match="failure_kind 'cosmic'"):
        opened.fail(make_spec(), 1, "cosmic", "ray")  # type: ignore[arg-type]
    assert not Run(root).trials().num_rows


def test_fail_yields_to_an_attempt_that_ended_after_all(root):
    spec = make_spec()
    with Store.open(root, make_grid(), GIVEN) as opened:
        assert opened.fail(spec, run_trial(opened, spec), "infrastructure", "lost sight of it") == "done"
        assert opened.failures(spec.trial_id) == (0, 0)


def test_a_trial_that_fails_itself(root):
    spec = make_spec()
    with Store.open(root, make_grid(), GIVEN) as opened:
        with Recorder(opened.paths, spec, 1) as recorder:
            recorder.record(0, 1.0, 0.1, {})
            recorder.finish("failed", failure_kind="code", error="ValueError: no", host="here")
        assert opened.absorb(spec.trial_id, 1) == "failed"
        assert opened.failures(spec.trial_id) == (1, 0)
    (row,) = Run(root).trials().to_pylist()
    assert (row["error"], row["host"]) == ("ValueError: no", "here")


def test_a_diverged_trial_counts_and_keeps_its_nan(root):
    spec = make_spec()
    with Store.open(root, make_grid(), GIVEN) as opened:
        with Recorder(opened.paths, spec, 1) as recorder:
            recorder.record(0, float("inf"), 0.1, {})
            recorder.record(1, float("nan"), 0.1, {})
            recorder.finish("diverged", error="loss nan at batch 1")
        assert opened.absorb(spec.trial_id, 1) == "diverged"
        assert opened.done() == {spec.trial_id}
    assert [repr(x) for x in Run(root).batches()["loss"].to_pylist()] == ["inf", "nan"]
    assert check(Run(root)) == []


def test_an_ended_attempt_is_absorbed_at_the_next_open(root):
    spec = make_spec()
    with Store.open(root, make_grid(), GIVEN) as opened:
        run_trial(opened, spec)
    with Store.open(root, make_grid(), GIVEN) as opened:
        assert opened.recovered == [f"trial {spec.trial_id}, attempt 1: done"]
        assert opened.done() == {spec.trial_id}


def test_a_second_finish_of_one_trial_is_set_aside(root):
    spec = make_spec()
    with Store.open(root, make_grid(), GIVEN) as opened:
        for attempt in (1, 2):
            opened.absorb(spec.trial_id, run_trial(opened, spec, attempt))
            opened.flush()
    run = Run(root)
    assert run.batches().num_rows == 4
    assert set(run.attempts()["reason"].to_pylist()) == {"an earlier attempt finished the trial"}
    assert check(run) == []


def test_a_journal_with_too_few_rows_or_a_corrupt_one_is_run_again(root):
    short, corrupt = make_spec("fast"), make_spec("slow")
    with Store.open(root, make_grid(), GIVEN) as opened:
        for spec in (short, corrupt):
            run_trial(opened, spec)
        paths = opened.paths
        rows = paths.rows(short.trial_id, 1)
        os.truncate(rows, rows.stat().st_size - 45)
        data = bytearray(paths.rows(corrupt.trial_id, 1).read_bytes())
        data[-60] ^= 1
        paths.rows(corrupt.trial_id, 1).write_bytes(data)
        assert opened.absorb(short.trial_id, 1) == "failed"
        assert opened.absorb(corrupt.trial_id, 1) == "failed"
        assert opened.failures(short.trial_id) == opened.failures(corrupt.trial_id) == (0, 1)
    errors = {row["trial_id"]: row["error"] for row in Run(root).trials().to_pylist()}
    assert errors[short.trial_id].endswith(".rows holds 3 of 4 recorded batches")
    assert "row 2: the row is corrupt" in errors[corrupt.trial_id]
    assert paths.damaged_rows(corrupt.trial_id, 1).read_bytes() == data
    with Store.open(root, make_grid(), GIVEN) as opened:
        for spec in (short, corrupt):
            assert opened.absorb(spec.trial_id, run_trial(opened, spec)) == "done"
    assert check(Run(root)) == []


@pytest.mark.parametrize("suffix", ["trial.json", "audits.jsonl"])
def test_other_damaged_journal_files_are_named(root, suffix):
    spec = make_spec()
    with Store.open(root, make_grid(), GIVEN) as opened:
        run_trial(opened, spec)
        (opened.paths.journal / f"{spec.trial_id}-1.{suffix}").write_text("{]\n")
        with pytest.raises(StoreError, match=rf"-1\.{suffix}: is damaged .*\n    delete it: the trial runs again"):
            opened.absorb(spec.trial_id, 1)


def test_a_log_alone_is_kept(root):
    spec = make_spec()
    with Store.open(root, make_grid(), GIVEN) as opened:
        opened.paths.log(spec.trial_id, 1).write_text("died at import\n")
    with Store.open(root, make_grid(), GIVEN) as opened:
        assert opened.recovered == []
        assert opened.next_attempt(spec.trial_id) == 2
        assert opened.paths.kept_log(spec.trial_id, 1).read_text() == "died at import\n"


def test_all_last_attempts_are_told_by_one_look(root):
    done, begun, logged, never = (make_spec("slow", block) for block in range(4))
    with Store.open(root, make_grid(), GIVEN) as opened:
        assert opened.last_attempts() == {}
        opened.absorb(done.trial_id, run_trial(opened, done))
        run_trial(opened, begun, 3)
        opened.paths.kept_log(logged.trial_id, 2).write_text("died at import\n")
        assert opened.last_attempts() == {done.trial_id: 1, begun.trial_id: 3, logged.trial_id: 2}
        assert [opened.next_attempt(spec.trial_id) for spec in (done, begun, logged, never)] == [2, 4, 3, 1]


def test_rows_of_all_that_began_are_told_by_one_look(root):
    flushed, ended, begun, never = (make_spec("slow", block) for block in range(4))
    with Store.open(root, make_grid(), GIVEN) as opened:
        assert opened.all_rows_written() == {}
        opened.absorb(flushed.trial_id, run_trial(opened, flushed))
        opened.flush()
        run_trial(opened, ended)
        with Recorder(opened.paths, begun, 3) as recorder:
            recorder.record(0, 1.0, 0.01, {})
            assert opened.all_rows_written() == {(ended.trial_id, 1): 4, (begun.trial_id, 3): 1}
            for spec, attempt in ((flushed, 1), (ended, 1), (begun, 3), (never, 1)):
                told = opened.all_rows_written().get((spec.trial_id, attempt))
                assert told == opened.rows_written(spec.trial_id, attempt)


def test_a_trial_that_does_not_die_is_named(root, monkeypatch):
    monkeypatch.setattr(intake, "DYING_S", 0.1)
    spec = make_spec()
    code = """
import sys, time
from pathlib import Path
from ablate.record.paths import StorePaths
from ablate.record.recorder import Recorder
sys.path.insert(0, ".")
from tests.record.conftest import make_spec
recorder = Recorder(StorePaths(Path(sys.argv[1])), make_spec(), 1)
print("begun", flush=True)
time.sleep(60)
"""
    Store.open(root, make_grid(), GIVEN).close()
    child = subprocess.Popen([sys.executable, "-c", code, str(root)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "begun\n"
    with pytest.raises(
        StoreError,
        match=rf"trial {spec.trial_id}, attempt 1: its process {child.pid} on {socket.gethostname()} still writes",
    ):
        Store.open(root, make_grid(), GIVEN)
    child.kill()
    child.wait()
    child.stdout.close()
    with Store.open(root, make_grid(), GIVEN) as opened:
        assert opened.failures(spec.trial_id) == (0, 1)


def test_metrics_and_outcomes_may_differ_between_trials(root):
    one, two = make_spec("fast"), make_spec("slow")
    with Store.open(root, make_grid(), GIVEN) as opened:
        for spec, metric, outcome in ((one, "a", "x"), (two, "b", "y")):
            with Recorder(opened.paths, spec, 1) as recorder:
                for k in range(4):
                    recorder.record(k, 0.5, 0.1, {metric: 2.0})
                recorder.finish("done", evaluate={outcome: 3.0})
            opened.absorb(spec.trial_id, 1)
            opened.flush()
        assert Run(root).batches(["metric.a"])["metric.a"].to_pylist() == [2.0] * 4 + [None] * 4
    rows = Run(root).batches(["arm", "metric.a", "metric.b"]).to_pylist()
    assert (
        rows
        == [{"arm": "fast", "metric.a": 2.0, "metric.b": None}] * 4
        + [{"arm": "slow", "metric.a": None, "metric.b": 2.0}] * 4
    )
    assert [(r["evaluate.x"], r["evaluate.y"]) for r in Run(root).trials().to_pylist()] == [(3.0, None), (None, 3.0)]


def test_a_thousand_absorptions_cost_few_files(root, monkeypatch):
    monkeypatch.setattr(store, "FLUSH_S", 1e9)
    grid = make_grid(batches=1, blocks=tuple(range(120)))
    with Store.open(root, grid, GIVEN) as opened:
        opened.flush()
        for block in range(120):
            spec = make_spec(block=block, batches=1)
            opened.absorb(spec.trial_id, run_trial(opened, spec, 1))
        assert len(list(opened.paths.batches.iterdir())) == 2
        assert len(opened.done()) == 120
    assert len(list(Run(root).paths.batches.iterdir())) == 1
    assert Run(root).batches()["block"].to_pylist() == list(range(120))
    assert check(Run(root)) == []


def test_batches_owned_by_nobody_are_set_aside(root):
    spec, other = make_spec("fast"), make_spec("slow")
    with Store.open(root, make_grid(), GIVEN) as opened:
        opened.absorb(spec.trial_id, run_trial(opened, spec))
    Run(root).paths.trials.unlink()
    assert [f.code for f in check(Run(root))] == ["C4"]
    with Store.open(root, make_grid(), GIVEN) as opened:
        why = "no finished trial in trials.parquet owns these rows"
        assert opened.recovered == [f"trial {spec.trial_id}, attempt 1: {why}"]
        for again in (spec, other):
            opened.absorb(again.trial_id, run_trial(opened, again))
    run = Run(root)
    assert run.batches().num_rows == 8
    assert set(run.attempts()["reason"].to_pylist()) == {why}
    assert check(run) == []


def test_files_say_schema_and_grid(root):
    with Store.open(root, make_grid(), GIVEN) as opened:
        opened.absorb(make_spec().trial_id, run_trial(opened, make_spec()))
    for path in (*root.glob("batches/*"), root / "trials" / "trials.parquet"):
        metadata = pq.read_metadata(path).metadata
        assert metadata[b"ablate.schema_version"] == b"1"
        assert metadata[b"ablate.spec_hash"].decode() == Run(root).spec.hash
