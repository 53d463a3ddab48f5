"""A cap on how many idle nodes leave a cluster at once, which Ray's autoscaler does not have.

Ray ends every node that was idle for its time-out, all in one step. A node on which anything is reserved is not idle,
so each gets a hold: a thousandth of the node's own resource, which no trial asks for. Holds of idle nodes are let go a
few at a time; further ones when those have left. They are placement groups of this process and end with it, however it
ends, unlike what `ray.autoscaler.sdk.request_resources` leaves behind.
"""

from __future__ import annotations

import time
from typing import Any

from ray import tune
from ray._private import state  # what a node has free is public nowhere
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group

from ablate.launch.ray_nodes import HEAD, alive

LOOK_S = 1.0
LEAVE_S = 900.0
"""A node that was let go and is still there after this, since its type's least number must stay, counts no longer."""

_OWN = ("node:", "memory", "object_store_memory")


class ScaleIn(tune.Callback):
    """Looks at the nodes while trials run, once a second, and lets at most so many leave at a time."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._holds: dict[str, PlacementGroup] = {}
        self._let_go: dict[str, float] = {}
        self._looked = 0.0

    def __getstate__(self) -> dict[str, Any]:
        """Tune pickles its callbacks for a restore, which is never used."""
        return {}

    def on_step_end(self, iteration: int, trials: list[Any], **_: Any) -> None:
        """Look, unless it was done just now."""
        if time.monotonic() - self._looked >= LOOK_S:
            self._looked = time.monotonic()
            self._look(self._looked)

    def _look(self, now: float) -> None:
        nodes = {n["NodeID"]: n["Resources"] for n in alive() if HEAD not in n["Resources"]}
        free: dict[str, dict[str, float]] = state.available_resources_per_node()  # type: ignore[no-untyped-call]
        idle = {node for node, offered in nodes.items() if _idle(offered, free.get(node, {}))}
        for node in list(self._holds.keys() - nodes.keys()):
            remove_placement_group(self._holds.pop(node))
        self._let_go = {node: at for node, at in self._let_go.items() if node in idle}
        for node, offered in nodes.items():
            if node not in self._holds and node not in self._let_go:
                self._holds[node] = _hold(node, offered)
        leaving = sum(now - at < LEAVE_S for at in self._let_go.values())
        for node in sorted(idle & self._holds.keys())[: max(0, self._at_once - leaving)]:
            remove_placement_group(self._holds.pop(node))
            self._let_go[node] = now


def _idle(offered: dict[str, float], free: dict[str, float]) -> bool:
    """Say whether a node runs nothing; its own resource, of which the hold has a part, does not count."""
    return all(free.get(name, 0.0) >= amount for name, amount in offered.items() if not name.startswith(_OWN))


def _hold(node: str, offered: dict[str, float]) -> PlacementGroup:
    own = next(name for name in offered if name.startswith("node:"))
    hold: PlacementGroup = placement_group([{own: 0.001}], bundle_label_selector=[{"ray.io/node-id": node}])
    return hold
