"""Attempts as they end: one whose process still writes does not end the launch, and is told."""

from __future__ import annotations

import io

from rich.console import Console

from ablate.design.spec import Outcome
from ablate.launch.after import Then
from ablate.launch.ended import Ended
from ablate.launch.progress import Display
from ablate.launch.waiting import Waiting
from ablate.record import intake
from ablate.record.reader import Run
from ablate.record.recorder import Recorder
from ablate.record.store import Store
from ablate.trial.task import TrialEnd, TrialTask
from tests.record.conftest import make_grid, make_spec, run_trial


def test_an_attempt_whose_process_cannot_be_ended_is_given_up_and_tried_again(tmp_path, monkeypatch):
    monkeypatch.setattr(intake, "DYING_S", 0.1)
    spec, said = make_spec(), io.StringIO()
    display = Display(Console(file=said, width=400))
    with Store.open(tmp_path / "run", make_grid(), b"grid") as store:
        task = TrialTask(spec=spec, root=str(store.paths.root), attempt=1, cwd=".", search=())
        ended = Ended(store, Outcome(last=2), [task], 1, display, Waiting(display.note))
        lost = Recorder(store.paths, spec, 1)
        lost.record(0, 1.0, 0.01, {})
        words = f"trial {spec.trial_id} (arm fast, block 0), attempt 1: its Ray actor failed"
        again = ended(
            task,
            TrialEnd(trial_id=spec.trial_id, attempt=1, status="failed", kind="infrastructure", error=words),
        )
        assert isinstance(again, TrialTask)
        assert again.attempt == run_trial(store, spec) == 2
        assert ended(again, TrialEnd(trial_id=spec.trial_id, attempt=2, status="done")) is Then.GO_ON
        assert ended.failed == []
        lost.close()
        display.close()
    still, tried = (line for line in said.getvalue().splitlines() if line.startswith("trial "))  # between progress
    assert still.startswith(f"trial {spec.trial_id}, attempt 1: its process ")
    assert still.endswith("; what it adds from here on counts for nothing")
    assert tried == f"{words}: tried again as attempt 2"
    [row] = Run(tmp_path / "run").trials().to_pylist()
    assert (row["status"], row["attempt"], row["failures_infrastructure"]) == ("done", 2, 1)


def test_how_far_a_launch_is_takes_one_look_at_the_journal_however_many_trials_are_to_come(tmp_path, monkeypatch):
    specs = [make_spec(block=block) for block in range(100)]
    display = Display(Console(file=io.StringIO()))
    with Store.open(tmp_path / "run", make_grid(), b"grid") as store:
        tasks = [TrialTask(spec=spec, root=str(store.paths.root), attempt=1, cwd=".", search=()) for spec in specs]
        ended = Ended(store, Outcome(last=2), tasks, 101, display, Waiting(display.note))
        display.close()  # it asks from a thread of its own
        looked = []
        rows = type(store.paths).rows
        monkeypatch.setattr(type(store.paths), "rows", lambda *key: looked.append(key) or rows(*key))
        with Recorder(store.paths, specs[7], 1) as running:
            running.record(0, 1.0, 0.01, {})
            looked.clear()
            state = ended.state()
            assert len(looked) == 1
            assert (state.done, state.running, state.batches, state.batches_in_all) == (1, 1, 5, 404)
