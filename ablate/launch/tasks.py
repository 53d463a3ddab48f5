"""From a trial to its next attempt: what its process is handed."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from ablate.design.grid import GridSpec
from ablate.design.reference_arm import reference_arm
from ablate.design.slope_checker import slope_checker
from ablate.design.trial_spec import TrialSpec
from ablate.launch.code_state import CodeState, code_state
from ablate.launch.inputs import trial_key
from ablate.launch.study import Study
from ablate.record.paths import StorePaths
from ablate.record.store import Store
from ablate.trial.prepare import Prepared, model_key
from ablate.trial.task import ReferenceArm, TrialTask


def make_tasks(study: Study, store: Store, specs: Iterable[TrialSpec], prepared: Prepared) -> list[TrialTask]:
    """Return the next attempt at each of the trials; the store is looked at once for all of them."""
    last = store.last_attempts()
    return [_make(study, store, spec, prepared, 1 + last.get(spec.trial_id, 0)) for spec in specs]


def make_task(study: Study, store: Store, spec: TrialSpec, prepared: Prepared) -> TrialTask:
    """Return the next attempt at a trial."""
    return make_tasks(study, store, [spec], prepared)[0]


def _make(study: Study, store: Store, spec: TrialSpec, prepared: Prepared, attempt: int) -> TrialTask:
    code = _code(study.path.resolve().parent, store.paths.root)
    weights = prepared.weights[model_key(spec)]
    batches = study.inputs.batches.get(trial_key(spec)) if study.inputs else None
    first = spec.block == min(study.grid.arms[spec.arm].blocks)
    return TrialTask(
        spec=spec,
        root=str(store.paths.root.resolve()),
        remote=store.remote,
        attempt=attempt,
        cwd=str(Path.cwd()),
        search=study.search,
        weights=study.inputs.weights_of(spec, store.paths.initial) if study.inputs else weights,
        data_hash=prepared.data[model_key(spec)],
        git_commit=code.commit,
        git_dirty=code.dirty,
        git_diff=code.diff,
        reference=_reference(study.grid, spec),
        inputs=str(batches.resolve()) if batches else None,
        kept=str(study.keep.resolve() / f"{spec.trial_id}.safetensors") if study.keep else None,
        audit_whole=first,
        audit_slope=first and slope_checker(spec.arm, spec.factors, study.grid) == spec.arm,
    )


def _reference(grid: GridSpec, spec: TrialSpec) -> ReferenceArm:
    name = reference_arm(spec.arm, grid)
    arm = grid.arms[name]
    return ReferenceArm(arm=name, settings={**grid.settings, **arm.settings, **spec.factors}, env=arm.numerics.env)


@cache
def _code(folder: Path, root: Path) -> CodeState:
    return code_state(folder, StorePaths(root))
