"""The dry run of a launch on a cluster: which nodes would come, for how long, and until when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ablate.cluster.batch import Capacity, Job, Simulation
from ablate.cluster.cluster_file import ClusterFile
from ablate.cluster.kuberay import IDLE_SECONDS
from ablate.cluster.node_types import NodeType, most_workers
from ablate.cluster.parts import find
from ablate.cluster.simulate import simulate
from ablate.design.pace import Paces
from ablate.launch.placement import check, each
from ablate.launch.study import Study

TRIAL_S = 600.0
"""What a trial is taken to last where nothing was timed."""

START_S = {"ray-up": 180.0, "kuberay": 60.0, "on-premise": 0.0}
"""From the autoscaler's decision until a node takes trials: a virtual machine boots and installs, a pod starts, where a
lab's machines run already. Assumed, not measured."""

RAYS_IDLE_MINUTES = 5.0
KUBERAYS_IDLE_S = 60.0


@dataclass(frozen=True)
class ClusterPlan:
    """How a batch would go on a cluster.

    Attributes:
        file: the cluster's file.
        types: its node types.
        simulation: what would happen.
        warnings: what will cost more than it must.
        assumed: what the simulation takes for granted, in words.
    """

    file: str
    types: tuple[NodeType, ...]
    simulation: Simulation
    warnings: tuple[str, ...]
    assumed: tuple[str, ...]


def cluster_plan(study: Study, file: ClusterFile, types: Sequence[NodeType], paces: Paces | None) -> ClusterPlan:
    """Simulate a study's whole batch on a cluster that runs nothing else.

    Args:
        study: the study.
        file: the cluster's, found to be right by ``check_cluster``.
        types: its node types, the head's among them.
        paces: how fast trials run; None if nothing was timed.
    """
    capacity = Capacity(tuple(types), most_workers(file), START_S[file.kind], _idle_s(file))
    jobs = [
        Job(
            spec.arm,
            each(spec.resources, spec.numerics.workers),
            paces.of(spec).trial_s(spec.batches, spec.guard) if paces else TRIAL_S,
            spec.numerics.workers,
        )
        for spec in study.specs
    ]
    found = simulate(jobs, capacity)
    return ClusterPlan(
        str(file.path), tuple(types), found, _warnings(study, types, found), _assumed(study, capacity, file, paces)
    )


def check_served(study: Study, types: Sequence[NodeType]) -> None:
    """Check that some node type serves each arm.

    Raises:
        UnmetPlacement: naming what is lacking, and what would fit.
    """
    workers = {spec.arm: spec.numerics.workers for spec in study.specs}
    check({spec.arm: spec.resources for spec in study.specs}, [], study.where, types, workers=workers)


def _warnings(study: Study, types: Sequence[NodeType], found: Simulation) -> tuple[str, ...]:
    """Name arms that never run, and ones without a GPU that take GPU nodes.

    The first are kept out by the cluster's limit, or by nodes that must be there and fill it; the second get such nodes
    from Ray while anything waits that asks for a GPU.
    """
    plain = {spec.arm for spec in study.specs if not spec.resources.get("GPU")}
    taken = {
        f"{arm} ({use.name})": None
        for use, one in zip(found.uses, types, strict=True)
        for arm in use.trials
        if arm in plain and one.resources.get("GPU")
    }
    said = []
    if found.never:
        advice = "raise the max_workers of the whole cluster, or lower min_workers"
        said.append(
            "these arms would wait for ever, since the nodes that must be there and the cluster's limit leave them no "
            f"room: {', '.join(found.never)}; {advice}"
        )
    if taken:
        advice = "give them the tag of a type without"
        said.append(f"these arms ask for no GPU and would take nodes that have one: {', '.join(taken)}; {advice}")
    return tuple(said)


def _idle_s(file: ClusterFile) -> float:
    if file.kind == "kuberay":
        seconds = find(file, IDLE_SECONDS)
        return KUBERAYS_IDLE_S if seconds is None else float(seconds)
    minutes = find(file, ("idle_timeout_minutes",))
    return 60.0 * float(RAYS_IDLE_MINUTES if minutes is None else minutes)


def _assumed(study: Study, capacity: Capacity, file: ClusterFile, paces: Paces | None) -> tuple[str, ...]:
    lasting = (
        f"every machine is as fast as the one timed ({paces.source})"
        if paces
        else f"a trial lasts {TRIAL_S / 60:g} min, since nothing was timed: --measure or --from RUN does"
    )
    shared = any(spec.numerics.workers > 1 for spec in study.specs)
    apart = ("a trial whose workers are on several node types counts as a trial of each",) if shared else ()
    if file.kind == "on-premise":
        return lasting, *apart, "the machines run already, and nothing else runs on them"
    return (
        lasting,
        *apart,
        f"a node takes {capacity.start_s / 60:g} min to start, is had when asked for, and leaves after "
        f"{capacity.idle_s / 60:g} min without a trial",
        "the whole grid asks at once, so that as many nodes come as it fills; nothing else runs on them",
    )
