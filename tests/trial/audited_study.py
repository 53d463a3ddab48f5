"""A study in this process: every trial through the real loop and store, judged as ``ablate gap`` judges it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from spec_factory import HERE

from ablate.design.cross import trials
from ablate.design.spec import Arm, Contrast, GridSpec, Outcome
from ablate.design.trial_spec import AuditPlan, GuardPlan, Numerics
from ablate.launch.tasks import _reference
from ablate.record.reader import Run
from ablate.record.store import Store
from ablate.trial.runner import run_trial
from ablate.trial.task import TrialTask
from analysis.contrast import ContrastReport
from analysis.gap import gap

Row = dict[str, Any]


def arm(numerics: Mapping[str, Any] | None = None, repeat: str | None = None, **settings: Any) -> Arm:
    """An arm of one block."""
    return Arm(
        numerics=Numerics(**(numerics or {})), settings=settings, resources={"CPU": 1.0}, blocks=(0,), repeat=repeat
    )


@dataclass
class Judged:
    """A contrast's verdict and the rows that it rests on."""

    contrast: ContrastReport
    rows: list[Row]
    run: Run

    @property
    def cause(self) -> str:
        return self.contrast.verdict.cause

    def bugs(self, batch: int = 0) -> list[Row]:
        return [row for row in self.rows if row["verdict"] == "bug" and row["batch_index"] == batch]

    def named(self, check: str = "distance", batch: int = 0) -> set[tuple[str, str]]:
        """Quantities and names of what is called a bug."""
        return {(row["quantity"], row["name"]) for row in self.bugs(batch) if row["check"] == check}


def judge(
    root: Path,
    trainable: str,
    other: Arm,
    reference: Arm | None = None,
    settings: Mapping[str, Any] | None = None,
    batches: int = 3,
    audit: int = 3,
) -> Judged:
    """Train both arms on one block and return the verdict on ``other against reference``; the rows are the other's."""
    spec = GridSpec(
        study="audited",
        question="Does the audit see it?",
        trainable=f"audited_trainables:{trainable}",
        settings=dict(settings or {}),
        factors={},
        arms={"reference": reference or arm(), "other": other},
        blocks=(0,),
        batches=batches,
        outcome=Outcome(last=1),
        contrasts=(Contrast(arms=("reference", "other")),),
        guard=GuardPlan(first=1, every=0),
        audit=AuditPlan(first=audit),
    )
    threads, onednn = torch.get_num_threads(), torch.backends.mkldnn.enabled
    failures = []
    with Store.open(root, spec, b"study: audited\n") as store:
        for trial in trials(spec):
            task = TrialTask(
                spec=trial,
                root=str(root),
                attempt=1,
                cwd=str(root),
                search=(HERE,),
                data_hash="drawn",
                reference=_reference(spec, trial),
            )
            end = run_trial(task)
            failures.append(end.error)
            store.absorb(trial.trial_id, 1)
    torch.set_num_threads(threads)
    torch.backends.mkldnn.enabled = onednn
    run = Run(root)
    (contrast,) = gap(run).contrasts
    rows = [row for row in run.audits().to_pylist() if row["arm"] == "other"]
    if any(failures):
        raise RuntimeError("\n".join(filter(None, failures)))
    return Judged(contrast, rows, run)
