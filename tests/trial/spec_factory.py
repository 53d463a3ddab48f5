"""Trial specs and tasks for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ablate.design.trial_spec import AuditPlan, GuardPlan, Numerics, TrialSpec
from ablate.record.paths import StorePaths
from ablate.trial.task import TrialTask

HERE = str(Path(__file__).parent)


def make_spec(trainable: str, **changes: Any) -> TrialSpec:
    """A spec of four batches on one thread."""
    fields: dict[str, Any] = {
        "study": "test",
        "trainable": trainable,
        "settings": {},
        "arm": "plain",
        "numerics": Numerics(),
        "factors": {},
        "block": 0,
        "batches": 4,
        "guard": GuardPlan(first=1, every=0),
        "audit": AuditPlan(first=0),
        "resources": {"CPU": 1.0},
    }
    return TrialSpec(**{**fields, **changes})


def make_task(root: Path, trainable: str, attempt: int = 1, weights: str | None = None, **changes: Any) -> TrialTask:
    """A task whose store folders exist."""
    for folder in StorePaths(root).folders:
        folder.mkdir(parents=True, exist_ok=True)
    return TrialTask(
        spec=make_spec(trainable, **changes),
        root=str(root),
        attempt=attempt,
        cwd=str(root),
        search=(HERE,),
        weights=weights,
    )
