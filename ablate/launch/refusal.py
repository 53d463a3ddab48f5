"""Why an arm fits nowhere, in words: the resource, what there is, the nearest name, and what would fit instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ablate.cluster.node_types import NodeType
from ablate.design.yaml_source import Loc
from ablate.errors import Problem, nearest

NO_FALLBACK = (
    "An arm with `device: cuda` never runs on the CPU instead: launch where nvidia-smi lists a GPU, or remove the arm."
)


@dataclass(frozen=True)
class Offer:
    """What a machine has for trials.

    Attributes:
        name: of the machine, as the message names it.
        resources: resource name -> amount.
        node_type: the kind of node that it would be; None for a machine that runs.
    """

    name: str
    resources: Mapping[str, float]
    node_type: NodeType | None = None


def reasons(
    arm: str, request: Mapping[str, float], offers: Sequence[Offer], where: Callable[[Loc], str], advice: str = ""
) -> list[Problem]:
    """Say why an arm fits on no machine: a problem for each resource that none has enough of, or one for all together.

    Args:
        arm: its name.
        request: what it asks for.
        offers: every machine, also those of node types of which there may be none.
        where: turns a key path into a place.
        advice: what to do next, where the machines themselves suggest nothing.
    """
    usable = [offer for offer in offers if offer.node_type is None or offer.node_type.max_workers]
    offered = {name for offer in usable for name in offer.resources}
    listing = "; ".join(f"{offer.name}: {amounts(offer.resources)}" for offer in usable)
    found = []
    for name, amount in request.items():
        most = max((offer.resources.get(name, 0.0) for offer in usable), default=0.0)
        if most >= amount:
            continue
        closed = [offer.name for offer in offers if offer not in usable and offer.resources.get(name)]
        close = nearest(name, offered) if name not in offered and name != "GPU" and not closed else ""  # a CPU is none
        if most:
            said, next_step = f"the most on one node is {most:g}", _would_fit(request, usable) or advice
        elif closed:
            said = f"which only {closed[0]} offers, and the cluster may have none of that type"
            next_step = "Raise its max_workers in the cluster's file, or remove the arm."
        else:
            said, next_step = "no node offers it", NO_FALLBACK if name == "GPU" else advice
        place = where(("arms", arm, "resources", name))
        found.append(Problem(place, f"asks for {name}: {amount:g}, {said}", listing, close, next_step))
    together = f"asks for {amounts(request)} on one node; no node offers all of it"
    next_step = _would_fit(request, usable) or advice
    return found or [Problem(where(("arms", arm, "resources")), together, listing, "", next_step)]


def amounts(resources: Mapping[str, float]) -> str:
    """Return ``CPU 8, cpu_avx512 1``."""
    return ", ".join(f"{name} {amount:g}" for name, amount in resources.items())


def _would_fit(request: Mapping[str, float], usable: Sequence[Offer]) -> str:
    """Return what of the request fits on the closest machine that has everything asked for, but too little.

    The closest machine is the one that has enough of most resources, then the one with the largest smallest share.
    """
    sharing = [offer for offer in usable if all(offer.resources.get(name, 0.0) > 0 for name in request)]
    if not sharing:
        return ""

    def closeness(offer: Offer) -> tuple[int, float]:
        shares = [min(1.0, offer.resources[name] / amount) for name, amount in request.items() if amount]
        return sum(share == 1.0 for share in shares), min(shares, default=1.0)

    best = max(sharing, key=closeness)
    fitting = {name: min(amount, best.resources[name]) for name, amount in request.items()}
    return f"The nearest is {best.name}, where {amounts(fitting)} would fit."
