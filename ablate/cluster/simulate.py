"""What a cluster would do with a batch of trials: an event simulation of Tune's placement and of Ray's autoscaler.

The whole batch asks at once. A trial starts on the first node that has room, earlier ones first; one with several
workers once all of them have room, on one node or on several (a placement group, packed). A trial that ends leaves its
place to the next that asks for the same, since Tune reuses actors. Nodes are added for what waits (``packing``), worker
by worker, work after a start-up time, and leave once nothing ran on them for the idle time, down to the least of their
type. A node with room for a worker of a trial that waits for more room is taken to stay: Ray lets it go and asks for
another at once. The autoscaler's own interval (5 s) and failures are not modelled.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Sequence

from ablate.cluster.batch import Ask, Capacity, Job, Simulation, TypeUse
from ablate.cluster.node_types import NodeType
from ablate.cluster.packing import Need, how_many, nodes_to_add, pack, take


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
        self._events: list[tuple[float, int, int]] = []  # when; a running number; a trial that ends, or -1
        self._noted = 0
        self._first_s: float | None = None
        self._end_s = self._left_s = 0.0
        self._waiting: dict[Ask, deque[int]] = {}
        for position, job in enumerate(jobs):
            self._waiting.setdefault(job.ask, deque()).append(position)
        self._at: dict[int, list[_Node]] = {}  # of each trial that runs its workers' nodes
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
            now, _, position = heapq.heappop(self._events)
            if position >= 0:
                self._end(position, now)
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

    def _note(self, second: float, position: int = -1) -> None:
        self._noted += 1
        heapq.heappush(self._events, (second, self._noted, position))

    def _launch(self, one: NodeType, now: float, start_s: float) -> None:
        node = _Node(one, now, now + start_s)
        self._nodes.append(node)
        self._note(node.up_s)
        self._note(node.up_s + self._capacity.idle_s)

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
            for position, ask in sorted((queue[0], ask) for ask, queue in self._waiting.items()):
                nodes = self._room(ask, now)
                if nodes:
                    self._start(position, nodes, now)
                    placed = True
                    break

    def _room(self, ask: Ask, now: float) -> list[_Node]:
        """Return a node for each of a trial's workers, as many on one as fit; none if there is no room for all."""
        need, workers = ask
        nodes: list[_Node] = []
        for node in self._nodes:
            if node.up_s <= now:
                nodes += [node] * min(how_many(node.free, need), workers - len(nodes))
        return nodes if len(nodes) == workers else []

    def _start(self, position: int, nodes: list[_Node], now: float) -> None:
        if self._first_s is None:
            self._first_s = now
        job = self._jobs[position]
        self._waiting[job.ask].popleft()
        if not self._waiting[job.ask]:
            del self._waiting[job.ask]
        for node in nodes:
            take(node.free, job.ask[0])
            node.running += 1
        self._at[position] = nodes
        for name in {node.kind.name for node in nodes}:
            self._ran[name][job.arm] = self._ran[name].get(job.arm, 0) + 1
        self._note(now + job.seconds, position)

    def _end(self, position: int, now: float) -> None:
        self._end_s = now
        job, nodes = self._jobs[position], self._at.pop(position)
        for node in nodes:
            take(node.free, job.ask[0], -1)
            node.running -= 1
        if job.ask in self._waiting:
            self._start(self._waiting[job.ask][0], nodes, now)
            return
        for node in nodes:
            if not node.running:
                node.idle_since_s = now
                self._note(now + self._capacity.idle_s)

    def _scale_out(self, now: float) -> None:
        waiting: Counter[Need] = Counter()
        for (need, workers), queue in self._waiting.items():
            waiting[need] += workers * len(queue)
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

        over = [
            node
            for node in self._nodes
            if not node.running and now >= node.idle_since_s + self._capacity.idle_s
            if not any(how_many(node.free, need) for need, _ in self._waiting)
        ]
        for one in {n.kind.name: n.kind for n in over if not n.kind.head}.values():
            there = sorted((node for node in self._nodes if node.kind is one), key=used_s, reverse=True)
            for node in there[one.min_workers :]:
                if node in over:
                    self._nodes.remove(node)
                    self._left_s = now
                    self._node_s[one.name] += now - node.launched_s
            self._count(one, now)
