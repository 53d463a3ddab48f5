"""Which machine can run which arm: checked before anything starts, since Ray lets a hopeless request wait for ever."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ablate.cluster.node_types import NodeType
from ablate.design.yaml_source import Loc, dotted
from ablate.errors import BadInput, Problem, UnmetPlacement
from ablate.launch.refusal import Offer, reasons
from ablate.trial.nvml import visible_gpus


@dataclass(frozen=True)
class Node:
    """A machine and what it offers: resource name -> amount."""

    name: str
    resources: Mapping[str, float]


def this_machine(offered: Mapping[str, float] | None = None) -> Node:
    """Return this machine's cores and GPUs, which a launch without a cluster can place on, and the tags it is given."""
    gpus = len(visible_gpus(os.environ))
    found = {"CPU": float(available_cores())} | ({"GPU": float(gpus)} if gpus else {})
    return Node("this machine", {**(offered or {}), **found})


def read_offers(words: Sequence[str]) -> dict[str, float]:
    """Return what ``--offer`` says this machine offers beside cores and GPUs: tag -> amount.

    Args:
        words: each ``TAG`` or ``TAG=AMOUNT``; without an amount 1, so that one trial at a time has the tag.

    Raises:
        BadInput: a word that is no offer, or a resource that is counted and not claimed.
    """
    offers: dict[str, float] = {}
    for word in words:
        tag, _, amount = word.partition("=")
        if tag in ("CPU", "GPU"):
            raise BadInput(Problem(f"--offer {word}", f"this machine's {tag}s are counted, not claimed", "a tag"))
        try:
            offers[tag] = float(amount or 1)
        except ValueError:
            offers[tag] = 0.0
        if not tag or not 0 < offers[tag] < float("inf"):
            raise BadInput(Problem(f"--offer {word}", "is no offer", "TAG, or TAG=AMOUNT with an amount above 0"))
    return offers


def available_cores() -> int:
    """Return how many cores this process may use (the affinity mask, where the system has one)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def unmet(requests: Mapping[str, Mapping[str, float]], nodes: Sequence[Node]) -> list[str]:
    """Return the arms that fit on none of the nodes, even when it is empty."""
    return [arm for arm, request in requests.items() if not any(fits(request, node.resources) for node in nodes)]


def check(
    requests: Mapping[str, Mapping[str, float]],
    nodes: Sequence[Node],
    where: Callable[[Loc], str] = dotted,
    node_types: Sequence[NodeType] = (),
    advice: str = "",
) -> None:
    """Check that every arm fits on some node when that node is empty, or on one that the cluster can add.

    Args:
        requests: arm name -> what it asks for.
        nodes: the machines there are.
        where: turns a key path into a place; pass ``YamlSource.where`` to name lines.
        node_types: what the cluster's autoscaler may add; one of which it may have none serves nobody.
        advice: what to do next where nothing better is known.

    Raises:
        UnmetPlacement: naming for every arm that fits nowhere the resource, what is offered, the nearest name, and what
            would fit on the machine that comes closest. What is offered stands in the first problem only.
    """
    offers = [Offer(node.name, node.resources) for node in nodes]
    offers += [Offer(f"node type {one.name} (up to {one.max_workers})", one.resources, one) for one in node_types]
    open_to_trials = [offer for offer in offers if offer.node_type is None or offer.node_type.max_workers]
    problems = [
        problem
        for arm, request in requests.items()
        if not any(fits(request, offer.resources) for offer in open_to_trials)
        for problem in reasons(arm, request, offers, where, advice)
    ]
    if problems:
        raise UnmetPlacement(problems[0], *(replace(problem, allowed="") for problem in problems[1:]))


def fits(request: Mapping[str, float], resources: Mapping[str, float]) -> bool:
    """Say whether a machine with these resources, when it is empty, can run what asks for so much."""
    return all(resources.get(name, 0.0) >= amount for name, amount in request.items())
