"""How Ray's autoscaler turns waiting trials into nodes: bin packing, restated for trials counted by their requests.

As in Ray 2.60, ``ray/autoscaler/_private/resource_demand_scheduler.py``: demands are packed largest first on what is
free, and for those that are left the best-used type of node is added, one node at a time, until nothing fits or no more
may be.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ablate.cluster.node_types import NodeType

Need = tuple[tuple[str, float], ...]
"""What one trial asks for, or each of its workers, as sorted items, so that equal requests can be counted."""

Waiting = Mapping[Need, int]
"""How many trials wait for each."""


def need_of(resources: Mapping[str, float]) -> Need:
    """Return a request as a key; what is asked for with amount 0 is left out."""
    return tuple(sorted((name, float(amount)) for name, amount in resources.items() if amount))


def how_many(free: Mapping[str, float], need: Need) -> int:
    """Return how many more such requests a node with so much free can take."""
    return min((math.floor(free.get(name, 0.0) / amount + 1e-9) for name, amount in need), default=0)


def take(free: dict[str, float], need: Need, times: int = 1) -> None:
    """Take what trials ask for from a node, or give it back where ``times`` is negative."""
    for name, amount in need:
        free[name] = free.get(name, 0.0) - times * amount


def pack(frees: Sequence[Mapping[str, float]], waiting: Waiting) -> dict[Need, int]:
    """Return what is left waiting if everything that fits is packed on nodes with so much free.

    Args:
        frees: what each node has free.
        waiting: the trials.
    """
    rooms = [dict(free) for free in frees]
    left: dict[Need, int] = {}
    for need in sorted(waiting, key=_weight, reverse=True):
        count = waiting[need]
        for room in rooms:
            if not count:
                break
            packed = min(count, how_many(room, need))
            take(room, need, packed)
            count -= packed
        if count:
            left[need] = count
    return left


def nodes_to_add(
    types: Sequence[NodeType], existing: Mapping[str, int], most: int | None, waiting: Waiting
) -> dict[str, int]:
    """Return how many nodes of each type the autoscaler adds for trials that fit on nothing there is.

    Args:
        types: the node types, the head's among them.
        existing: nodes of each type that run or start.
        most: workers of all types together; None for no limit.
        waiting: trials that do not fit on these.
    """
    room = math.inf if most is None else most + sum(one.head for one in types) - sum(existing.values())
    added: dict[str, int] = {}
    while waiting and sum(added.values()) < room:
        open_types = [one for one in types if existing.get(one.name, 0) + added.get(one.name, 0) < one.max_workers]
        rated = [(rating, one.name, one) for one in open_types if (rating := _rate(one, waiting)) is not None]
        if not rated:
            break
        _, name, best = max(rated, key=lambda entry: entry[:2])
        added[name] = added.get(name, 0) + 1
        waiting = pack([best.resources], waiting)
    return added


def _weight(need: Need) -> tuple[int, float, Need]:
    return len(need), sum(amount for _, amount in need), need


def _rate(one: NodeType, waiting: Waiting) -> tuple[bool, int, float, float] | None:
    """Rate a node type for what waits; None if it takes none of it.

    In this order: no GPU where none is asked for; many resources that are asked for; the least used of its resources
    used well; its resources used well on average, each weighted by its amount.
    """
    free, taken = dict(one.resources), False
    for need in sorted(waiting, key=_weight, reverse=True):
        packed = min(waiting[need], how_many(free, need))
        take(free, need, packed)
        taken = taken or packed > 0
    asked = {name for need in waiting for name, _ in need}
    used = [amount * ((amount - free[name]) / amount) ** 3 for name, amount in one.resources.items() if amount >= 1]
    if not taken or not used:
        return None
    spared = not one.resources.get("GPU") or "GPU" in asked
    return (
        spared,
        len(asked & {name for name, amount in one.resources.items() if amount >= 1}),
        min(used),
        sum(used) / len(used),
    )
