"""``ablate probe``: the curvature of weights that a run kept, looked at after the fact."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from ablate.design.cross import trials
from ablate.design.resolve import find_trainable
from ablate.design.shadow import check_not_shadowed
from ablate.design.trial_spec import CurvaturePlan, TrialSpec
from ablate.errors import BadInput, Problem
from ablate.launch.interruption import sigterm_raises
from ablate.launch.launchers import Launcher
from ablate.launch.named_trial import find_trial
from ablate.launch.probing import Probed, check_placement, left_to_probe, looked_at_otherwise, probe
from ablate.launch.progress import Display
from ablate.launch.study import Study
from ablate.record.paths import SnapshotKey
from ablate.record.reader import Run
from ablate.record.remote_store import open_store

KEY = "The grid's key `probes: {curvature: {at: [0, last]}}` keeps them, of trials that run from then on."


@dataclass(frozen=True)
class Selected:
    """What is asked for.

    Attributes:
        study: the run's.
        specs: its trials, or the one that was named.
        at: numbers of batches; None for all after which weights were kept.
    """

    study: Study
    specs: tuple[TrialSpec, ...]
    at: tuple[int, ...] | None


def study_of(run: Run) -> Study:
    """Return the study of a run, whose trainable is looked for as a launch from this folder would.

    Raises:
        BadInput: its losses are from elsewhere, or the trainable is not found.
        StoreError: the store holds no grid that this ablate understands.
    """
    grid = run.grid
    if grid.imported:
        found = f"its losses are from {grid.imported.source}: ablate ran no trial of it, and there are no weights"
        raise BadInput(Problem(str(run.paths.root), found, advice=KEY))
    search = (Path.cwd(),)
    check_not_shadowed(search)
    try:
        find_trainable(grid.trainable, search)
    except BadInput as error:
        advice = "It is imported as at launch: call this in the folder of the grid file that was launched."
        raise BadInput(
            *(replace(one, advice=f"{one.advice}\n    {advice}".strip()) for one in error.problems)
        ) from error
    return Study(run.paths.grid_yaml, grid, trials(grid), tuple(map(str, search)))


def select(study: Study, trial: str | None, at: Sequence[int]) -> Selected:
    """Return what of a study is asked for.

    Args:
        study: the run's.
        trial: the one trial, by its id or as ARM/BLOCK; None for all.
        at: numbers of batches; empty for all.

    Raises:
        BadInput: there is no such trial; the nearest is named.
    """
    specs = study.specs if trial is None else (find_trial(study, trial),)
    return Selected(study, specs, tuple(sorted(set(at))) or None)


def probe_later(
    selected: Selected, launcher: Launcher, root: Path | str, console: Console, allow_mixed_code: bool = False
) -> tuple[Probed, int]:
    """Look at the weights that were kept and not looked at yet.

    Args:
        selected: which.
        launcher: which places the tasks.
        root: the store's folder or URI.
        console: for how far it is.
        allow_mixed_code: look even though the trainable's code has changed since.

    Returns:
        How it ended, and how many of the weights asked for had been looked at before.

    Raises:
        BadInput: no weights were kept, or not after so many batches.
        UnmetPlacement, StoreError, Terminated, KeyboardInterrupt: as ``launch``.
    """
    study, specs = selected.study, selected.specs
    display = Display(console)
    try:
        grid_bytes = study.path.read_bytes()
        with sigterm_raises(), open_store(root, study.grid, grid_bytes, uuid.uuid4().hex, display.note) as store:
            ids = {spec.trial_id for spec in specs}
            there = {key for key in store.snapshots() | store.probed() if key.trial_id in ids}
            wanted = {key for key in there if selected.at is None or key.batches in selected.at}
            _check_kept(selected, there, wanted, str(root), store.done())
            left = left_to_probe(store, specs, selected.at)
            before = len(wanted & store.probed())
            plan = study.grid.probes.curvature or CurvaturePlan(at=tuple(sorted({key.batches for key in there})))
            if said := looked_at_otherwise(store, plan):
                display.note(said)
            if not left:
                return Probed(), before
            check_placement(study, plan, launcher)
            return probe(study, store, launcher, display, plan, left, allow_mixed_code), before
    finally:
        display.close()
        launcher.close()


def _check_kept(
    selected: Selected, there: set[SnapshotKey], wanted: set[SnapshotKey], root: str, done: set[str]
) -> None:
    """Refuse to look at what was never kept."""
    if wanted and (selected.at is None or {key.batches for key in wanted} >= set(selected.at)):
        return
    one = selected.specs[0].trial_id if len(selected.specs) == 1 else ""
    whose = f"{root}: trial {one}" if one else root
    if not {spec.trial_id for spec in selected.specs} & done:
        found = "has not been trained to its end" if one else "no trial has been trained to its end"
        raise BadInput(Problem(whose, found, advice="Launch it first: weights are looked at once their trial is over."))
    if not there:
        raise BadInput(Problem(whose, "no weights were kept", advice=KEY))
    lacking = sorted(set(selected.at or ()) - {key.batches for key in wanted})
    kept = ", ".join(map(str, sorted({key.batches for key in there})))
    found = f"no weights were kept after {', '.join(map(str, lacking))} batches"
    raise BadInput(Problem(f"{whose}: --at", found, kept, advice=KEY))
