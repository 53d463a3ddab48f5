"""One trial whose first batches are audited, in this process: what the benchmarks of the audit run."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from ablate.design.trial_spec import AuditPlan, GuardPlan, Numerics, SketchPlan, TrialSpec
from ablate.record.paths import StorePaths
from ablate.trial.runner import run_trial
from ablate.trial.task import ReferenceArm, TrialTask

TESTS = Path(__file__).parent.parent / "tests" / "trial"


def run(
    trainable: str,
    root: Path,
    first: int,
    whole: bool = True,
    slope: bool = True,
    kept: Path | None = None,
    **changes: Any,
) -> float:
    """Run a trial; return its processor time in seconds.

    Args:
        trainable: of the test suite, or any.
        root: folder of its store.
        first: how many batches are audited.
        whole: as in an arm's first block, with the run of float64 from batch 0.
        slope: the slope check is made.
        kept: file for what the audited batch gave.
        changes: further fields of the trial, ``batches`` among them; ``reference``, the reference arm's settings, and
            ``all``, which gives that arm this one's.

    Raises:
        SystemExit: the trial failed.
    """
    fields: dict[str, Any] = {"settings": {}, "numerics": Numerics(), **changes}
    all_arms = fields.pop("all", False)
    reference = fields.pop("reference", None) or (fields["settings"] if all_arms else {})
    spec = TrialSpec(
        study="benchmark",
        trainable=trainable,
        arm="other",
        factors={},
        block=0,
        guard=GuardPlan(first=0, every=0),
        audit=AuditPlan(first=first),
        sketches=SketchPlan(every=0),
        resources={"CPU": 1.0},
        **fields,
    )
    for folder in StorePaths(root).folders:
        folder.mkdir(parents=True, exist_ok=True)
    task = TrialTask(
        spec=spec,
        root=str(root),
        attempt=1,
        cwd=str(root),
        search=(str(TESTS),),
        reference=ReferenceArm(arm="plain", settings=reference, env={}),
        audit_whole=whole,
        audit_slope=slope,
        kept=str(kept) if kept else None,
    )
    began = time.process_time()
    end = run_trial(task)
    if end.status != "done":
        raise SystemExit(end.error)
    return time.process_time() - began
