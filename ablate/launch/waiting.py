"""Trials that wait for what no live node has: said once, and in every line of progress, with what to do.

Every arm fits on some node when a launch starts. If that node is lost later, or the cluster does not add the one it
could, Ray lets the trials wait for ever without a word. They go on waiting, since a node may come; but whoever looks
reads which arms wait, for which resource, and since when.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from ablate.cluster.node_types import NodeType
from ablate.launch.cluster_plan import START_S
from ablate.launch.placement import Node, fits
from ablate.launch.refusal import amounts

LATE_S = 2 * max(START_S.values())
"""How long a node that the cluster can add may take before it is said to be missing."""

KEPT = "or end the launch: what is recorded is kept, and the next launch goes on from there"

Request = tuple[tuple[str, float], ...]


@dataclass
class _Wait:
    """Trials that ask for the same and fit on no live node.

    Attributes:
        arms: theirs.
        trials: how many.
        since_s: by the monotonic clock.
        since: by the wall clock, for people.
        said: whether it was.
    """

    arms: tuple[str, ...]
    trials: int
    since_s: float
    since: str
    said: bool = False

    @property
    def whose(self) -> str:
        """``arms a, b: 3 trials``."""
        arms = f"{'arms' if len(self.arms) > 1 else 'arm'} {', '.join(self.arms)}"
        return f"{arms}: {self.trials} {'trials' if self.trials > 1 else 'trial'}"


class Waiting:
    """Knows which trials wait in vain.

    Args:
        told: is told of each resource that trials wait for, once, and that it is there again.
        node_types: returns what the cluster can add; asked once, when a trial first fits on no live node.
    """

    def __init__(self, told: Callable[[str], None], node_types: Callable[[], Sequence[NodeType]] = tuple) -> None:
        self._told = told
        self._ask = node_types
        self._types: Sequence[NodeType] | None = None
        self._waits: dict[Request, _Wait] = {}

    @property
    def words(self) -> str:
        """Return what waits in vain, for the line of progress; empty if nothing does."""
        waits = [(amounts(dict(request)), wait) for request, wait in self._waits.copy().items() if wait.said]
        return ", ".join(f"{wait.trials} waiting for {wanted} since {wait.since}" for wanted, wait in waits)

    def look(self, pending: Sequence[tuple[str, Mapping[str, float]]], nodes: Sequence[Node], now_s: float) -> None:
        """Compare trials that do not run with the nodes there are.

        Args:
            pending: arm of each of those trials, and what it asks for.
            nodes: live ones, each with all that it offers when it is empty.
            now_s: by the monotonic clock.
        """
        asking: dict[Request, list[str]] = {}
        for arm, resources in pending:
            asking.setdefault(tuple(sorted(resources.items())), []).append(arm)
        unmet = {
            request: arms
            for request, arms in asking.items()
            if not any(fits(dict(request), node.resources) for node in nodes)
        }
        for request in self._waits.keys() - unmet.keys():
            wait = self._waits.pop(request)
            if wait.said and request in asking:
                waited = f"waited {_minutes(now_s - wait.since_s)} for {amounts(dict(request))}"
                self._told(f"{wait.whose} {waited}: a node has it now")
        for request, arms in unmet.items():
            wait = self._waits.setdefault(request, _Wait((), 0, now_s, datetime.now(UTC).strftime("%H:%M:%S UTC")))
            wait.arms, wait.trials = tuple(dict.fromkeys(arms)), len(arms)
            if not wait.said:
                self._say(wait, dict(request), now_s)

    def _say(self, wait: _Wait, request: Mapping[str, float], now_s: float) -> None:
        if self._types is None:
            self._types = tuple(self._ask())
        could = [one.name for one in self._types if one.max_workers and fits(request, one.resources)]
        if could and now_s - wait.since_s < LATE_S:
            return
        wait.said = True
        where = f"{wait.whose} cannot be placed since {wait.since}: no live node offers {amounts(request)}"
        if could:
            why = f"{where}, and the cluster has not added one of type {' or '.join(could)}"
            advice = "`ray status` on its head says why (capacity, a quota, a failed start). Wait"
        else:
            tags = ", ".join(f'"{name}": {amount:g}' for name, amount in request.items() if name not in ("CPU", "GPU"))
            offer = f" --resources '{{{tags}}}'" if tags else ""
            why = f"{where} any more"
            advice = f"Start such a node (ray start --address HEAD:6379{offer}) and they go on"
        self._told(f"{why}. {advice}, {KEPT}.")


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 60 else f"{seconds:.0f} s"
