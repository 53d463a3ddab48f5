"""A batch of trials on a cluster: what is asked, what there may be, and how it would go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ablate.cluster.node_types import NodeType
from ablate.cluster.packing import Need, need_of

Ask = tuple[Need, int]
"""What each of a trial's workers asks for, and how many there are."""


@dataclass(frozen=True)
class Capacity:
    """A cluster as the simulation takes it.

    Attributes:
        types: its node types, the head's among them.
        most_workers: workers of all types together; None for no limit.
        start_s: from the autoscaler's decision until a node takes trials.
        idle_s: how long a node stays without one.
    """

    types: tuple[NodeType, ...]
    most_workers: int | None
    start_s: float
    idle_s: float


@dataclass(frozen=True)
class Job:
    """One trial.

    Attributes:
        arm: its arm.
        resources: what each of its workers asks for.
        seconds: how long it runs.
        workers: how many it has.
    """

    arm: str
    resources: Mapping[str, float]
    seconds: float
    workers: int = 1

    @property
    def ask(self) -> Ask:
        """What it needs before it starts."""
        return need_of(self.resources), self.workers


@dataclass(frozen=True)
class TypeUse:
    """What a batch makes of one node type.

    Attributes:
        name: the type.
        steps: (second, number of nodes from then on), starting at 0; nodes that start up count.
        peak: the most at a time.
        node_s: node seconds from a node's launch until it leaves; of those that never leave, until the cluster is idle.
        trials: how many trials ran on it, by arm; one whose workers were on several types counts on each.
    """

    name: str
    steps: tuple[tuple[float, int], ...]
    peak: int
    node_s: float
    trials: Mapping[str, int]


@dataclass(frozen=True)
class Simulation:
    """How a batch would go.

    Attributes:
        first_s: when the first trial starts.
        end_s: when the last trial ends.
        idle_s: when the last node that may leave has left.
        uses: what happens to each node type, in the file's order.
        never: arms with trials for which there is no room on the nodes there may be.
    """

    first_s: float
    end_s: float
    idle_s: float
    uses: tuple[TypeUse, ...]
    never: tuple[str, ...]
