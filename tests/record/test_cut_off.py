"""An attempt whose process cannot be ended: its rows so far are kept, what it adds counts for nothing."""

from __future__ import annotations

import pytest

from ablate.errors import StoreError
from ablate.record import intake
from ablate.record.check import check
from ablate.record.intake import StillWritten, cut_off
from ablate.record.paths import AttemptKey
from ablate.record.reader import Run
from ablate.record.recorder import Recorder
from ablate.record.store import Store
from tests.record.conftest import make_grid, make_spec, run_trial

SPEC = make_spec()


def test_what_a_process_adds_after_it_was_cut_off_reaches_nobody(root, monkeypatch):
    monkeypatch.setattr(intake, "DYING_S", 0.1)
    with Store.open(root, make_grid(), b"grid") as store:
        lost = Recorder(store.paths, SPEC, 1)
        for k in range(2):
            lost.record(k, 1 / (k + 1), 0.01, {})
        with pytest.raises(StillWritten, match=rf"trial {SPEC.trial_id}, attempt 1: its process \d+ on \S+ still "):
            store.fail(SPEC, 1, "infrastructure", "its node is gone")
        cut_off(store.paths, AttemptKey(SPEC.trial_id, 1))
        lost.record(2, 0.5, 0.01, {})
        assert store.fail(SPEC, 1, "infrastructure", "its node is gone") == "failed"
        assert run_trial(store, SPEC) == 2
        assert store.absorb(SPEC.trial_id, 2) == "done"

        words = rf"trial {SPEC.trial_id}, attempt 1: the launch has gone on without this attempt"
        lost.record(3, 0.5, 0.01, {})
        with pytest.raises(StoreError, match=words):
            lost.keep_for_resume()
        with pytest.raises(StoreError, match=words):
            lost.finish("done")
        lost.close()
    assert [*store.paths.checkpoints.iterdir()] == [*store.paths.journal.iterdir()] == []
    run = Run(root)
    assert check(run) == []
    [row] = run.trials().to_pylist()
    assert (row["status"], row["attempt"], row["failures_infrastructure"]) == ("done", 2, 1)
    assert run.batches(["batch_index"]).column(0).to_pylist() == list(range(SPEC.batches))
    kept = run.attempts(["attempt", "batch_index"]).to_pylist()
    assert [(one["attempt"], one["batch_index"]) for one in kept] == [(1, 0), (1, 1)]


def test_it_is_cut_off_while_it_finds_its_journal_replaced_before_anything_is_counted(root):
    """Between the copy and the count it may end by itself: then it does not, and its rows are still there once."""
    with Store.open(root, make_grid(), b"grid") as store:
        lost = Recorder(store.paths, SPEC, 1)
        lost.record(0, 0.5, 0.01, {})
        cut_off(store.paths, AttemptKey(SPEC.trial_id, 1))
        with pytest.raises(StoreError, match="the launch has gone on without this attempt"):
            lost.finish("done")
        lost.close()
        assert store.fail(SPEC, 1, "infrastructure", "its node is gone") == "failed"
    assert Run(root).attempts(["batch_index"]).column(0).to_pylist() == [0]
