"""Runs one short trial to see how fast batches are: in a process of its own, recorded in a folder that is then gone."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
import uuid
from pathlib import Path
from tempfile import TemporaryDirectory

from ablate.design.pace import TimedTrial
from ablate.design.trial_spec import GuardPlan, TrialSpec
from ablate.errors import Problem, TrialsFailed, UnmetPlacement
from ablate.launch import placement
from ablate.launch.preparation import Preparation
from ablate.launch.room import gpus_for
from ablate.launch.study import Study
from ablate.launch.tasks import make_task
from ablate.record.intake import wait_for_death
from ablate.record.journal import read_journal, rows_written
from ablate.record.paths import AttemptKey
from ablate.record.store import Store
from ablate.record.trial_table import read_end
from ablate.trial.gang import shut
from ablate.trial.isolation import Isolation
from ablate.trial.local_workers import LocalWorkers
from ablate.trial.task import TrialEnd, TrialTask

BATCHES = 12
WATCHED = 3
LONG_S = 30.0
"""After so long, two batches will do."""


def short_trial(study: Study) -> TrialSpec:
    """Return the trial that is measured: the first of the study's first arm that this machine can run, a few batches.

    Raises:
        UnmetPlacement: if it can run none.
    """
    machine = placement.this_machine()
    first = {spec.arm: spec for spec in reversed(study.specs)}
    fitting = []
    for arm in study.grid.arms:
        with contextlib.suppress(UnmetPlacement):
            placement.check({arm: first[arm].resources}, [machine], study.where)
            fitting.append(arm)
    if not fitting:
        placement.check({arm: spec.resources for arm, spec in first.items()}, [machine], study.where)
    spec = first[fitting[0]]
    watched = WATCHED if spec.guard.first or spec.guard.every else 0
    return spec.model_copy(update={"batches": min(BATCHES, spec.batches), "guard": GuardPlan(first=watched, every=0)})


def measure(study: Study, spec: TrialSpec) -> TimedTrial:
    """Run a trial and return its times.

    Args:
        study: the study it is of.
        spec: the trial.

    Raises:
        BadInput: the trainable cannot be imported or built, or its data are bad.
        TrialsFailed: the trial failed.
        AblateError: no process could be started.
    """
    isolation = LocalWorkers(Isolation(uuid.uuid4().hex))
    with TemporaryDirectory(prefix="ablate-measure-") as folder:
        root = Path(folder) / study.grid.study
        with Store.open(root, study.grid, study.path.read_bytes()) as store:
            preparation = Preparation([spec], store.paths.initial, study.search)
            try:
                prepared = preparation.wait(lambda n, of: None)
            finally:
                preparation.cancel()
            task = make_task(study, store, spec, prepared).model_copy(update={"gpus": gpus_for(spec.resources)})
            rows = store.paths.rows(spec.trial_id, task.attempt)
            try:
                end, cut = _run(isolation, task, rows)
            finally:
                isolation.close()
            if end.status == "failed" and not cut:
                raise TrialsFailed(Problem("measuring", end.error, advice="Mend it; a launch would fail alike."))
            durations = read_journal(rows).rows["duration_s"].tolist()
            wait_for_death(store.paths, AttemptKey(spec.trial_id, task.attempt))  # it writes into the folder
            wall_s = None if cut else read_end(store.paths.trial_json(spec.trial_id, task.attempt))["wall_s"]
    return TimedTrial(spec.arm, spec.factors, durations, wall_s, spec.guard)


def _run(isolation: LocalWorkers, task: TrialTask, rows: Path) -> tuple[TrialEnd, bool]:
    """Run the trial, and end it early if its batches are long; say whether that was done."""
    ended, cut = threading.Event(), threading.Event()

    def started(connection: socket.socket) -> None:
        threading.Thread(target=end_a_long_one, args=(connection,), daemon=True).start()

    def end_a_long_one(connection: socket.socket) -> None:
        began = time.monotonic()
        while not ended.wait(0.2):
            if time.monotonic() - began > LONG_S and (rows_written(rows) or 0) >= 2:
                cut.set()
                shut(connection)  # its server kills the trial
                return

    try:
        return isolation.run(task, started), cut.is_set()
    finally:
        ended.set()
