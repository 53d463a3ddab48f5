"""Runs one trial in this process, without Ray and without a launcher: to see its output, or under a debugger."""

from __future__ import annotations

import os
from pathlib import Path

from ablate.design.trial_spec import TrialSpec
from ablate.errors import BadInput, Problem, StoreError, TrialsFailed, nearest
from ablate.launch import placement
from ablate.launch.preparation import Preparation
from ablate.launch.room import gpus_for
from ablate.launch.study import Study, read_study
from ablate.launch.tasks import make_task
from ablate.record.lock import clear_store
from ablate.record.paths import StorePaths
from ablate.record.store import Store
from ablate.trial.environment import process_environment


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
    spec = _find(study, trial_id)
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
        from ablate.trial.runner import run_trial

        end = run_trial(task)
        if end.kind == "store":
            raise StoreError(Problem(str(root), end.error))
        if not store.absorb(trial_id, task.attempt):
            store.fail(spec, task.attempt, end.kind or "infrastructure", end.error)
    if end.status == "failed":
        raise TrialsFailed(Problem(f"{end.kind} failure", end.error))
    return root


def _find(study: Study, trial_id: str) -> TrialSpec:
    """Return the trial of that id, or the one of that ``arm/block`` if there is just one."""
    by_id = {spec.trial_id: spec for spec in study.specs}
    named = [spec for spec in study.specs if f"{spec.arm}/{spec.block}" == trial_id]
    if len(named) == 1:
        return named[0]
    if named:
        several = "; ".join(f"{spec.trial_id} ({_levels(spec)})" for spec in named)
        raise BadInput(Problem(f"{study.path}: {trial_id}", f"has {len(named)} trials, one for each level", several))
    if trial_id in by_id:
        return by_id[trial_id]
    raise BadInput(
        Problem(
            where=f"{study.path}: trial {trial_id!r}",
            found=f"is none of the grid's {len(by_id)} trials",
            nearest=nearest(trial_id, by_id),
            advice=f"Name it as ARM/BLOCK, or list the ids: ablate plan {study.path} --json",
        )
    )


def _levels(spec: TrialSpec) -> str:
    return ", ".join(f"{name}={level}" for name, level in spec.factors.items())
