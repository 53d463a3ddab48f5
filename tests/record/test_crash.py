"""A crash between any two steps of absorbing and merging: no row twice, none lost, and the next open heals."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ablate.record.check import check
from ablate.record.reader import Run
from ablate.record.recorder import Recorder
from ablate.record.store import Store
from tests.record.conftest import make_grid, make_spec, run_trial

DONE = [make_spec("slow"), make_spec("fast")]
FAILING = make_spec("fast", lr=0.2)
SURVIVED = 77


def launch(root: Path) -> None:
    with Store.open(root, make_grid(), b"study: demo\n") as store:
        for spec in DONE:
            if spec.trial_id not in store.done():
                store.absorb(spec.trial_id, run_trial(store, spec))
                store.flush()
        if FAILING.trial_id not in store.done() and store.failures(FAILING.trial_id) == (0, 0):
            with Recorder(store.paths, FAILING, store.next_attempt(FAILING.trial_id)) as recorder:
                recorder.record(0, 1.0, 0.1, {})
                recorder.audit(batch_index=0, verdict="clean")
            store.fail(FAILING, 1, "code", "boom")


def die_at(step: int) -> None:
    """Make this process die just before its ``step``-th change to the file system's names."""
    left = [step]

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **keywords: Any) -> Any:
            if left[0] == 0:
                os._exit(0)
            left[0] -= 1
            return real(*args, **keywords)

        return call

    os.replace = counted(os.replace)
    os.unlink = counted(os.unlink)
    Path.unlink = counted(Path.unlink)  # type: ignore[method-assign]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_crash_at_every_step(memory):
    step = 0
    while True:
        root = memory / f"s{step}"
        child = os.fork()
        if child == 0:
            try:
                die_at(step)
                launch(root)
                os._exit(SURVIVED)
            finally:
                os._exit(1)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code in (0, SURVIVED)
        if (root / "spec.json").exists():
            codes = {finding.code for finding in check(Run(root))}
            assert codes <= {"C4", "C7"}, (step, codes)  # C4: batches are in before their trial, as designed
        launch(root)
        run = Run(root)
        assert check(run) == [], step
        assert run.batches()["batch_index"].to_pylist() == [0, 1, 2, 3] * len(DONE)
        (failed,) = [row for row in run.trials().to_pylist() if row["status"] == "failed"]
        assert failed["failures_code"] + failed["failures_infrastructure"] == 1
        rows = [(r["trial_id"], r["attempt"], r["batch_index"]) for r in run.attempts().to_pylist()]
        assert len(rows) == len(set(rows))
        assert [row for row in rows if row[0] == FAILING.trial_id] == [(FAILING.trial_id, 1, 0)]
        assert run.audits()["trial_id"].to_pylist() == [FAILING.trial_id]
        assert run.sketches()["trial_id"].to_pylist() == [spec.trial_id for spec in sorted(DONE, key=lambda s: s.arm)]
        if code == SURVIVED:
            break
        step += 1
    assert step > 20
