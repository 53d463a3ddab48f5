"""Runs one trial in this process, without Ray and without a launcher: to see its output, or under a debugger."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from ablate.errors import Problem, StoreError, TrialsFailed
from ablate.launch import placement
from ablate.launch.named_trial import find_trial
from ablate.launch.preparation import Preparation
from ablate.launch.room import gpus_for
from ablate.launch.study import read_study
from ablate.launch.tasks import make_task
from ablate.record.lock import clear_store
from ablate.record.paths import StorePaths
from ablate.record.store import Store
from ablate.trial.environment import process_environment
from ablate.trial.isolation import Isolation
from ablate.trial.local_workers import LocalWorkers
from ablate.trial.task import TrialEnd, TrialTask


def run_alone(grid: Path, trial_id: str, runs: Path) -> Path:
    """Run a trial under its arm's environment and record it in a store of its own, made anew each time.

    Returns:
        The store, ``<runs>/<study>.<trial_id>``.

    Raises:
        BadInput: an unknown trial, or what ``read_study`` and the preparation refuse.
        UnmetPlacement: the arm computes on a GPU, and there is none here.
        TrialsFailed: the trial failed; its traceback went to standard error.
    """
    study = read_study(grid)
    spec = find_trial(study, trial_id)
    needs = {"GPU": spec.resources["GPU"]} if "GPU" in spec.resources else {}
    placement.check({spec.arm: needs}, [placement.this_machine()], study.where)
    gpus = gpus_for(needs)
    # torch reads these when it is imported, so this must come before anything that imports it
    environment = process_environment(spec.numerics, os.environ)
    os.environ.clear()
    os.environ.update(environment)
    trial_id = spec.trial_id
    root = runs / f"{study.grid.study}.{trial_id}"
    clear_store(StorePaths(root))
    with Store.open(root, study.grid, grid.read_bytes()) as store:
        prepared = Preparation([spec], store.paths.initial, study.search).wait(lambda n, of: None)
        task = make_task(study, store, spec, prepared).model_copy(update={"gpus": gpus})
        task = task.model_copy(update={"audit_slope": task.audit_whole})  # no other arm is there to make it
        end = _run(task)
        if end.kind == "store":
            raise StoreError(Problem(str(root), end.error))
        if not store.absorb(trial_id, task.attempt):
            store.fail(spec, task.attempt, end.kind or "infrastructure", end.error)
    if end.status == "failed":
        raise TrialsFailed(Problem(f"{end.kind} failure", end.error))
    return root


def _run(task: TrialTask) -> TrialEnd:
    """Run it here; several workers need a process each, whose output goes to the trial's log."""
    if task.workers == 1:
        from ablate.trial.runner import run_trial

        return run_trial(task)
    workers = LocalWorkers(Isolation(uuid.uuid4().hex))
    try:
        return workers.run(task)
    finally:
        workers.close()
