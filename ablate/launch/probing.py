"""The second phase of a launch: the curvature of the weights that trials kept, a task of its own for each trial.

A probe trains nothing and belongs to a trial that is done, so it may be made at any time: by the launch that trained
it, by a later one, or by ``ablate probe``. What the store holds already is not looked at again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ablate.design.trial_spec import CurvaturePlan, TrialSpec
from ablate.errors import BadInput, Problem, UnmetPlacement
from ablate.launch import placement
from ablate.launch.launchers import Launcher
from ablate.launch.preparation import Preparation
from ablate.launch.probes_ended import ProbesEnded
from ablate.launch.progress import Display
from ablate.launch.refusal import amounts
from ablate.launch.study import Study
from ablate.launch.waiting import Waiting
from ablate.record.probe_intake import to_look_again
from ablate.record.reader import Run
from ablate.record.store import Store
from ablate.trial.task import ProbeRequest, TrialEnd, TrialTask

Left = Sequence[tuple[TrialSpec, tuple[int, ...]]]
"""Trials, each with the numbers of batches after which it kept weights that are to be looked at."""


@dataclass(frozen=True)
class Probed:
    """How probes ended.

    Attributes:
        failed: how those trials' tasks ended that failed.
        trials: how many trials had weights to look at.
        snapshots: how many of the weights were looked at.
    """

    failed: tuple[TrialEnd, ...] = ()
    trials: int = 0
    snapshots: int = 0


def left_to_probe(store: Store, specs: Sequence[TrialSpec], at: Sequence[int] | None = None) -> Left:
    """Return the weights that were kept and not looked at.

    Args:
        store: where they lie.
        specs: trials; those that are not finished have none.
        at: numbers of batches; None for all.
    """
    left: dict[str, list[int]] = {}
    for trial_id, batches in sorted(store.snapshots() - store.probed()):
        if at is None or batches in at:
            left.setdefault(trial_id, []).append(batches)
    return [(spec, tuple(left[spec.trial_id])) for spec in specs if spec.trial_id in left]


def never_kept(store: Store, specs: Sequence[TrialSpec], plan: CurvaturePlan) -> str:
    """Say which finished trials kept no weights although they got that far; empty if all did."""
    known = store.snapshots() | store.probed()
    done = store.done()
    lacking = [
        (spec, at)
        for spec in specs
        if spec.trial_id in done
        for at in plan.at
        if (spec.trial_id, at) not in known and at <= store.row(spec.trial_id)["batches"]
    ]
    if not lacking:
        return ""
    trials, batches = len({spec.trial_id for spec, _ in lacking}), sorted({at for _, at in lacking})
    listed = ", ".join(map(str, batches))
    return f"{trials} trials kept no weights after {listed} batches: they ran before the grid's `probes` asked for it"


def looked_at_otherwise(store: Store, plan: CurvaturePlan) -> str:
    """Say which recorded probes looked in another way than the plan asks for now; empty if none is known to.

    A probe is known by its snapshot alone, so a launch never throws away what one found to look again.
    """
    table = Run(store.paths.root).probes(["trial_id", "batches", "plan"])
    looked = set(zip(*(table[name].to_pylist() for name in table.column_names), strict=True))
    counts = Counter(text for _, _, text in looked if text)
    now = plan.how
    said = []
    for text, count in sorted(counts.items()):
        then = json.loads(text)
        changed = [
            f"{key}: {json.dumps(then[key])} -> {json.dumps(now[key])}"
            for key in now
            if key in then and then[key] != now[key]
        ]
        if changed:
            said.append(f"{count} snapshots were looked at before the grid's `probes` changed ({', '.join(changed)})")
    return "; ".join([*said, f"if they are to be looked at again, {to_look_again(store.remote)}"]) if said else ""


def check_placement(study: Study, plan: CurvaturePlan, launcher: Launcher) -> None:
    """Check that some machine can run a probe.

    Raises:
        UnmetPlacement: none there is or can be added.
    """
    request = plan.resources
    offers = [node.resources for node in launcher.nodes()]
    if any(placement.fits(request, one) for one in offers):
        return
    offers += [kind.resources for kind in launcher.node_types() if kind.max_workers]
    if not any(placement.fits(request, one) for one in offers):
        there = "; ".join(map(amounts, offers))
        where = study.where(("probes", "curvature", "device"))
        found = f"probes ask for {amounts(request)} on one node, and no node offers that"
        advice = (
            "Probes with `device: cuda` never run on the CPU instead: go where nvidia-smi lists a GPU, or ask for cpu."
        )
        raise UnmetPlacement(Problem(where, found, there, advice=advice))


def probe(
    study: Study,
    store: Store,
    launcher: Launcher,
    display: Display,
    plan: CurvaturePlan,
    left: Left,
    allow_mixed_code: bool = False,
) -> Probed:
    """Look at weights that trials kept.

    Args:
        study: whose they are.
        store: where they lie.
        launcher: which places the tasks; started if it is not.
        display: for how far it is.
        plan: how to look.
        left: what to look at; not empty.
        allow_mixed_code: look even though the trainable's code has changed since the trial.

    Raises:
        BadInput: bad trainable or data, or code that has changed.
        UnmetPlacement, StoreError, Terminated, KeyboardInterrupt: as ``launch``.
    """
    display.stage(f"checking data for the probes of {len(left)} trials")
    preparation = Preparation(_distinct([spec for spec, _ in left]), store.paths.initial, study.search)
    try:
        launcher.start()
        code = preparation.wait(lambda n, of: None).source_hash
    finally:
        preparation.cancel()
    if not allow_mixed_code:
        _check_code(store, left, code)
    tasks = [_task(study, store, spec, _request(study, store, spec, plan, at, allow_mixed_code)) for spec, at in left]
    for spec, _ in left:  # of a probe that failed or was broken off: a log says that one runs
        store.paths.probe_log(spec.trial_id).unlink(missing_ok=True)
    waiting = Waiting(display.note, launcher.node_types)
    ended = ProbesEnded(store, tasks, display, waiting)
    try:
        launcher.run(tasks, ended, waiting)
    except BaseException:
        launcher.close()  # its probes end with it, so that what they finished can be taken in
        ended.interrupt()
        raise
    return Probed(tuple(ended.failed), len(tasks), ended.snapshots)


def _task(study: Study, store: Store, spec: TrialSpec, request: ProbeRequest) -> TrialTask:
    return TrialTask(
        spec=spec,
        root=str(store.paths.root.resolve()),
        remote=store.remote,
        attempt=0,
        cwd=str(Path.cwd()),
        search=study.search,
        probe=request,
    )


def _request(
    study: Study, store: Store, spec: TrialSpec, plan: CurvaturePlan, at: Sequence[int], mixed: bool
) -> ProbeRequest:
    return ProbeRequest(
        at=tuple(at),
        plan=plan,
        code=store.row(spec.trial_id)["source_hash"],
        mixed=mixed,
        surface=tuple(_projected(study, store, spec, plan, at)),
    )


def _projected(study: Study, store: Store, spec: TrialSpec, plan: CurvaturePlan, at: Sequence[int]) -> Iterator[str]:
    """Yield the finished trials that are projected onto a trial's map: its block's, under the same levels.

    Only the first arm's trials have one, around the last weights of the plan.
    """
    if plan.surface and spec.arm == next(iter(study.grid.arms)) and plan.at[-1] in at:
        done = store.done()
        for other in study.specs:
            if (other.block, other.factors) == (spec.block, spec.factors) and other.trial_id in done:
                yield other.trial_id


def _distinct(specs: Sequence[TrialSpec]) -> list[TrialSpec]:
    """Return a trial for each distinct settings: data are prepared once for each."""
    return list({json.dumps(spec.settings, sort_keys=True): spec for spec in specs}.values())


def _check_code(store: Store, left: Left, code: str) -> None:
    ran_with = {store.row(spec.trial_id)["source_hash"] for spec, _ in left} - {None, code}
    if ran_with:
        raise BadInput(
            Problem(
                where=f"{store.paths.root}: source_hash",
                found=f"the trainable of trials recorded there was {', '.join(sorted(ran_with))}, now it is {code}",
                advice="Their weights may mean something else to it: go back to that code (git_commit in trials), or "
                "pass --allow-mixed-code.",
            )
        )
