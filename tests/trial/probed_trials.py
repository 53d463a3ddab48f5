"""Trials that kept weights, their probes and the rows that those wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from spec_factory import make_task

from ablate.design.trial_spec import CurvaturePlan, ProbePlan
from ablate.record.json_lines import read_lines
from ablate.record.paths import StorePaths
from ablate.trial.probe_run import run_probe
from ablate.trial.runner import run_trial
from ablate.trial.task import ProbeRequest, TrialEnd, TrialTask

torch.set_num_threads(1)
QUADRATIC = "probed_trainables:Quadratic"
CAREFUL = "small_trainables:Careful"


def trained(
    root: Path, trainable: str, at: tuple[int, ...] = (0, 4), plan: dict[str, Any] | None = None, **changes: Any
) -> TrialTask:
    """Run a trial and return its task."""
    probes = ProbePlan(curvature=CurvaturePlan(at=at, **(plan or {})))
    task = make_task(root, trainable, probes=probes, **changes)
    assert run_trial(task).status in ("done", "diverged")
    return task


def asked(task: TrialTask, **changes: Any) -> TrialTask:
    """Ask for the probe of all that a trial's plan names."""
    plan = task.spec.probes.curvature
    assert plan is not None
    return task.model_copy(update={"attempt": 0, "probe": ProbeRequest(**{"at": plan.at, "plan": plan, **changes})})


def probed(task: TrialTask, **changes: Any) -> TrialEnd:
    return run_probe(asked(task, **changes))


def lines(task: TrialTask, batches: int) -> list[dict[str, Any]]:
    return read_lines(StorePaths(Path(task.root)).probe_lines(task.spec.trial_id, batches))


def row(task: TrialTask, batches: int, name: str, position: int | None = None, player: str = "") -> dict[str, Any]:
    (found,) = (
        one
        for one in lines(task, batches)
        if one["name"] == name and one["position"] == position and player in ("", one["player"])
    )
    return found


def content(task: TrialTask) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in StorePaths(Path(task.root)).journal.glob("*.probe.jsonl")}
