"""``ablate audit``: every arm's first batches held against float64, without training on."""

from __future__ import annotations

import uuid
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from ablate.design.cross import trials
from ablate.design.spec import GridSpec, Outcome
from ablate.design.trial_spec import ArtifactPlan, AuditPlan, GuardPlan, ProbePlan
from ablate.errors import Problem, StoreError
from ablate.launch.inputs import Inputs
from ablate.launch.launching import Launched, launch
from ablate.launch.local import LocalLauncher
from ablate.launch.study import Study
from ablate.record.lock import clear_store
from ablate.record.paths import StorePaths


def audit_grid(grid: GridSpec) -> GridSpec:
    """Return the study cut down to what an audit runs: the first block, as many batches as are audited, all watched."""
    plan = grid.audit or AuditPlan()
    batches = min(grid.batches, max((plan.first, *(at + 1 for at in plan.at))))
    block = min(grid.blocks)
    arms = {name: arm.model_copy(update={"blocks": (block,)}) for name, arm in grid.arms.items()}
    return grid.model_copy(
        update={
            "arms": arms,
            "blocks": (block,),
            "batches": batches,
            "audit": plan,
            "guard": GuardPlan(first=batches, every=0),
            "outcome": Outcome(metric="loss", last=1),
            "margin": None,
            "artifacts": ArtifactPlan(),
            "probes": ProbePlan(),
        }
    )


def cut_down(study: Study, inputs: Inputs | None = None, keep: Path | None = None) -> Study:
    """Return what an audit runs of a study.

    Args:
        study: as ``read_study`` gave it.
        inputs: what to run on instead of this machine's own weights and batches.
        keep: folder for every trial's inputs and values.
    """
    grid = audit_grid(study.grid)
    return replace(study, grid=grid, specs=trials(grid), inputs=inputs, keep=keep)


def audit(study: Study, root: Path, console: Console) -> Launched:
    """Audit every arm on this machine and record it in a store of its own, made anew.

    Args:
        study: as ``cut_down`` gave it.
        root: the store, ``<runs>/<study>.audit``.
        console: for progress.

    Raises:
        BadInput, UnmetPlacement, StoreError: as ``launch``.
    """
    clear_store(StorePaths(root))
    if root.exists() and any(root.iterdir()):
        raise StoreError(Problem(str(root), "is no store, and audits are recorded there", advice="Move it away."))
    return launch(study, LocalLauncher(uuid.uuid4().hex), root, console)
