"""A launch from grid file to store: check, prepare, place, record. Which launcher places trials makes no difference."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from ablate.cluster.node_types import NodeType
from ablate.errors import BadInput, Problem, StoreError
from ablate.launch import placement
from ablate.launch.ended import Ended
from ablate.launch.interruption import sigterm_raises
from ablate.launch.launchers import Launcher
from ablate.launch.preparation import Preparation
from ablate.launch.probing import Probed, check_placement, left_to_probe, looked_at_otherwise, never_kept, probe
from ablate.launch.progress import Display
from ablate.launch.study import Study
from ablate.launch.tasks import make_tasks
from ablate.launch.waiting import Waiting
from ablate.record.remote_store import open_store
from ablate.record.store import Store
from ablate.trial.prepare import Prepared
from ablate.trial.task import TrialEnd


@dataclass(frozen=True)
class Launched:
    """How a launch ended: the store, this launch's attempts that failed, and trials given up after all failed alike.

    ``probed`` says how the probes ended of the weights that trials kept.
    """

    root: Path
    failed: tuple[TrialEnd, ...]
    ran: int
    kept: int
    not_run: int = 0
    probed: Probed = field(default_factory=Probed)


def launch(
    study: Study,
    launcher: Launcher,
    root: Path | str,
    console: Console,
    allow_mixed_code: bool = False,
    node_types: Sequence[NodeType] = (),
) -> Launched:
    """Run what the store does not hold yet.

    Args:
        study: the study.
        launcher: places its trials.
        root: the store: its folder, or its URI.
        console: for how far it is.
        allow_mixed_code: continue a study that other code began.
        node_types: what the launcher's cluster can add; if none are given, it is asked.

    Raises:
        BadInput: bad trainable or data, or a store of another study.
        UnmetPlacement: an arm that no machine can run.
        StoreError: a store that is locked, full or read-only, or refuses.
        Terminated, KeyboardInterrupt: interrupted; what was acknowledged is in the store.
    """
    display = Display(console)
    try:
        known = _check_placement(study, launcher, node_types)
        launch_id, told = uuid.uuid4().hex, display.note
        with sigterm_raises(), open_store(root, study.grid, study.path.read_bytes(), launch_id, told) as store:
            here = Path(root) if store.remote is None else store.paths.root
            done = store.done()
            pending = [spec for spec in study.specs if spec.trial_id not in done]
            if not pending:
                return Launched(
                    here, (), 0, len(done), probed=_probe(study, store, launcher, display, allow_mixed_code)
                )
            display.stage(f"checking data, making initial weights for {len(pending)} trials, starting the launcher")
            preparation = Preparation(pending, store.paths.initial, study.search)
            try:
                launcher.start(pending[0].numerics)  # Ray, imports and weights take seconds each: side by side
                prepared = preparation.wait(lambda n, of: display.stage(f"initial weights: {n} of {of}"))
            finally:
                preparation.cancel()
            _same_code(store, prepared, allow_mixed_code)
            tasks = make_tasks(study, store, pending, prepared)
            store.publish()
            waiting = Waiting(display.note, lambda: known or launcher.node_types())
            ended = Ended(store, study.grid.outcome, tasks, len(study.specs), display, waiting)
            try:
                launcher.run(tasks, ended, waiting)
            except StoreError:
                raise  # nothing more can be written; what was acknowledged is safe in the journal
            except BaseException:
                launcher.close()  # its trials end with it, so that what they acknowledged can be set aside
                ended.interrupt()
                raise
            if ended.given_up:
                launcher.close()
                ended.interrupt()
                return Launched(here, tuple(ended.failed), len(tasks) - ended.given_up, len(done), ended.given_up)
            probed = _probe(study, store, launcher, display, allow_mixed_code)
            return Launched(here, tuple(ended.failed), len(tasks), len(done), probed=probed)
    finally:
        display.close()
        launcher.close()


def _check_placement(study: Study, launcher: Launcher, node_types: Sequence[NodeType]) -> Sequence[NodeType]:
    """Return what the cluster can add, as far as that had to be asked."""
    requests = {spec.arm: spec.resources for spec in study.specs}
    nodes = launcher.nodes()
    known = node_types
    workers = {spec.arm: spec.numerics.workers for spec in study.specs}
    if placement.unmet(requests, nodes, workers):
        known = node_types or launcher.node_types()
        placement.check(requests, nodes, study.where, known, "" if known else launcher.if_unmet, workers)
    if study.grid.probes.curvature:
        check_placement(study, study.grid.probes.curvature, launcher)
    return known


def _probe(study: Study, store: Store, launcher: Launcher, display: Display, allow_mixed_code: bool) -> Probed:
    """Look at the weights that finished trials kept, of this launch and of earlier ones."""
    plan = study.grid.probes.curvature
    if plan is None:
        return Probed()
    for said in filter(None, (never_kept(store, study.specs, plan), looked_at_otherwise(store, plan))):
        display.note(said)
    left = left_to_probe(store, study.specs, plan.at)
    if not left:
        return Probed()
    probed = probe(study, store, launcher, display, plan, left, allow_mixed_code)
    display.note(f"looked at the curvature of {probed.snapshots} snapshots of {probed.trials} trials")
    return probed


def _same_code(store: Store, prepared: Prepared, allow_mixed_code: bool) -> None:
    """Refuse to continue a study with another version of the trainable or of torch.

    Raises:
        BadInput: naming which changed.
    """
    if allow_mixed_code:
        return
    mixed = [
        Problem(
            where=f"{store.paths.root}: {column}",
            found=f"trials recorded there ran with {', '.join(sorted(before))}, now it is {now}",
            advice="Start a new study (another `study:` name), or pass --allow-mixed-code; reports then say so.",
        )
        for column, now in (("source_hash", prepared.source_hash), ("torch", prepared.torch))
        if (before := store.seen(column)) - {now}
    ]
    if mixed:
        raise BadInput(*mixed)
