"""What places trials: one contract, held by the local launcher and by Ray's."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from ablate.cluster.node_types import NodeType
from ablate.design.trial_spec import Numerics
from ablate.errors import BadInput, Problem
from ablate.launch import placement
from ablate.launch.after import After
from ablate.launch.local import LocalLauncher
from ablate.launch.ray_code import choose
from ablate.launch.ray_launcher import RayLauncher
from ablate.launch.study import Study
from ablate.launch.waiting import Waiting
from ablate.trial.task import TrialTask


class Launcher(Protocol):
    """What places trials: the local launcher and the Ray launcher, held to one contract test."""

    def nodes(self) -> list[placement.Node]:
        """Return the machines there are."""
        ...

    def node_types(self) -> Sequence[NodeType]:
        """Return what the cluster can add, as far as it tells."""
        ...

    @property
    def if_unmet(self) -> str:
        """What to do about an arm that fits on none of these."""
        ...

    def start(self, first: Numerics | None = None) -> None:
        """Be ready to place; told how the first trial computes, one may load meanwhile what its process needs."""
        ...

    def run(self, tasks: Sequence[TrialTask], after: After, waiting: Waiting | None = None) -> None:
        """Run every task and do what ``after``, told of each end in this thread, says follows.

        ``waiting`` is shown the trials that have no place yet, where machines can be lost.
        """
        ...

    def close(self) -> None:
        """End what was started."""
        ...


def new_launcher(
    local: bool,
    address: str | None,
    offers: Sequence[str] = (),
    study: Study | None = None,
    store: Path | None = None,
    leave_at_once: int | None = None,
) -> Launcher:
    """Return the launcher asked for.

    Args:
        local: without Ray.
        address: of a Ray cluster; None for an embedded one.
        offers: tags that this machine is said to offer, as ``placement.read_offers`` takes them.
        study: whose code is sent to a cluster's nodes; None if they have it.
        store: that a cluster's nodes have to reach by its path; None for one at a URI.
        leave_at_once: idle nodes that may leave a cluster at a time; None for as many as there are.

    Raises:
        BadInput: a word that is no offer, an offer for a cluster, a dashboard's address, or code that cannot be sent.
    """
    launch_id = uuid.uuid4().hex
    offered = placement.read_offers(offers)
    if local:
        return LocalLauncher(launch_id, offered)
    if address and offered:
        advice = "start each node with what it offers: ray start --resources '{\"TAG\": 1}'"
        raise BadInput(Problem("--offer", f"with a cluster at {address}", "without --address", advice=advice))
    if address and address.startswith(("http://", "https://")):
        found = "is the address of a dashboard, which takes submitted launches only"
        raise BadInput(Problem(f"--address {address}", found, "HEAD:6379, or --detach with this one"))
    code = choose(study.path, study.grid.trainable, Path.cwd(), store) if address and study else None
    return RayLauncher(launch_id, address, offered, code, store, leave_at_once)
