"""What a cluster would do with a batch of trials: an event simulation of Tune's placement and of Ray's autoscaler.

The whole batch asks at once. A trial starts on the first node that has room, earlier ones first; one that ends leaves
its place to the next that asks for the same, since Tune reuses actors. Nodes are added for what waits (``packing``),
work after a start-up time, and leave once nothing ran on them for the idle time, down to the least of their type. The
autoscaler's own interval (5 s) and failures are not modelled.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ablate.cluster.node_types import NodeType
from ablate.cluster.packing import Need, fits, need_of, nodes_to_add, pack, take


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
    """One trial: its arm, what it asks for, and how long it runs."""

    arm: str
    resources: Mapping[str, float]
    seconds: float


@dataclass(frozen=True)
class TypeUse:
    """What a batch makes of one node type.

    Attributes:
        name: the type.
        steps: (second, number of nodes from then on), starting at 0; nodes that start up count.
        peak: the most at a time.
        node_s: node seconds from a node's launch until it leaves; of those that never leave, until the cluster is idle.
        trials: how many trials ran on it, by arm.
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
        never: arms with trials that fit on no node there may be.
    """

    first_s: float
    end_s: float
    idle_s: float
    uses: tuple[TypeUse, ...]
    never: tuple[str, ...]


def simulate(jobs: Sequence[Job], capacity: Capacity) -> Simulation:
    """Simulate a batch on a cluster of which nothing but each type's least number of nodes runs.

    Args:
        jobs: the trials in launch order.
        capacity: the cluster.
    """
    return _Batch(jobs, capacity).run()


class _Node:
    def __init__(self, kind: NodeType, launched_s: float, up_s: float) -> None:
        self.kind, self.launched_s, self.up_s = kind, launched_s, up_s
        self.free = dict(kind.resources)
        self.running = 0
        self.idle_since_s = up_s


class _Batch:
    def __init__(self, jobs: Sequence[Job], capacity: Capacity) -> None:
        self._jobs, self._capacity = jobs, capacity
        self._nodes: list[_Node] = []
        self._events: list[tuple[float, int, int, _Node]] = []  # when; a running number; a trial that ends, or -1
        self._noted = 0
        self._first_s: float | None = None
        self._end_s = self._left_s = 0.0
        self._waiting: dict[Need, deque[int]] = {}
        for position, job in enumerate(jobs):
            self._waiting.setdefault(need_of(job.resources), deque()).append(position)
        self._steps: dict[str, list[tuple[float, int]]] = {one.name: [] for one in capacity.types}
        self._node_s = {one.name: 0.0 for one in capacity.types}
        self._ran: dict[str, dict[str, int]] = {one.name: {} for one in capacity.types}
        for one in capacity.types:
            for _ in range(min(one.min_workers, one.max_workers)):
                self._launch(one, 0.0, 0.0)
            self._count(one, 0.0)

    def run(self) -> Simulation:
        self._place(0.0)
        self._scale_out(0.0)
        while self._events:
            now, _, position, node = heapq.heappop(self._events)
            if position >= 0:
                self._end(position, node, now)
            self._place(now)  # first: with no idle time a node would go as it comes, before it was given a trial
            self._scale_in(now)
            self._scale_out(now)
        idle_s = max(self._end_s, self._left_s)
        for node in self._nodes:
            self._node_s[node.kind.name] += idle_s - node.launched_s
        left = {self._jobs[position].arm for queue in self._waiting.values() for position in queue}
        return Simulation(
            first_s=self._first_s or 0.0,
            end_s=self._end_s,
            idle_s=idle_s,
            uses=tuple(self._use(one.name) for one in self._capacity.types),
            never=tuple(arm for arm in dict.fromkeys(job.arm for job in self._jobs) if arm in left),
        )

    def _use(self, name: str) -> TypeUse:
        steps = tuple(self._steps[name])
        return TypeUse(name, steps, max(count for _, count in steps), self._node_s[name], self._ran[name])

    def _note(self, second: float, node: _Node, position: int = -1) -> None:
        self._noted += 1
        heapq.heappush(self._events, (second, self._noted, position, node))

    def _launch(self, one: NodeType, now: float, start_s: float) -> None:
        node = _Node(one, now, now + start_s)
        self._nodes.append(node)
        self._note(node.up_s, node)
        self._note(node.up_s + self._capacity.idle_s, node)

    def _count(self, one: NodeType, now: float) -> None:
        count, steps = sum(node.kind is one for node in self._nodes), self._steps[one.name]
        if steps and steps[-1][0] == now:
            steps.pop()
        if not steps or steps[-1][1] != count:
            steps.append((now, count))

    def _place(self, now: float) -> None:
        """Start what fits, earlier trials first."""
        placed = True
        while placed:
            placed = False
            for position, need in sorted((queue[0], need) for need, queue in self._waiting.items()):
                node = next((node for node in self._nodes if node.up_s <= now and fits(node.free, need)), None)
                if node is not None:
                    self._start(position, need, node, now)
                    placed = True
                    break

    def _start(self, position: int, need: Need, node: _Node, now: float) -> None:
        if self._first_s is None:
            self._first_s = now
        self._waiting[need].popleft()
        if not self._waiting[need]:
            del self._waiting[need]
        take(node.free, need)
        node.running += 1
        job, ran = self._jobs[position], self._ran[node.kind.name]
        ran[job.arm] = ran.get(job.arm, 0) + 1
        self._note(now + job.seconds, node, position)

    def _end(self, position: int, node: _Node, now: float) -> None:
        self._end_s = now
        need = need_of(self._jobs[position].resources)
        take(node.free, need, -1)
        node.running -= 1
        if need in self._waiting:
            self._start(self._waiting[need][0], need, node, now)
        elif not node.running:
            node.idle_since_s = now
            self._note(now + self._capacity.idle_s, node)

    def _scale_out(self, now: float) -> None:
        waiting = {need: len(queue) for need, queue in self._waiting.items()}
        left = pack([node.free for node in self._nodes], waiting) if waiting else {}
        if not left:
            return
        existing = {one.name: sum(node.kind is one for node in self._nodes) for one in self._capacity.types}
        added = nodes_to_add(self._capacity.types, existing, self._capacity.most_workers, left)
        for one in self._capacity.types:
            for _ in range(added.get(one.name, 0)):
                self._launch(one, now, self._capacity.start_s)
            self._count(one, now)

    def _scale_in(self, now: float) -> None:
        """Let go of nodes that were idle for long enough; of each type the least number stays, the last used ones."""

        def used_s(node: _Node) -> float:
            return now if node.running else node.idle_since_s if node.up_s <= now else -1.0

        over = [n for n in self._nodes if not n.running and now >= n.idle_since_s + self._capacity.idle_s]
        for one in {n.kind.name: n.kind for n in over if not n.kind.head}.values():
            there = sorted((node for node in self._nodes if node.kind is one), key=used_s, reverse=True)
            for node in there[one.min_workers :]:
                if node in over:
                    self._nodes.remove(node)
                    self._left_s = now
                    self._node_s[one.name] += now - node.launched_s
            self._count(one, now)
