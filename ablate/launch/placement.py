"""Which machine can run which arm: checked before anything starts, since Ray lets a hopeless request wait for ever."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ablate.cluster.node_types import NodeType
from ablate.design.yaml_source import Loc, dotted
from ablate.errors import BadInput, Problem, UnmetPlacement
from ablate.launch.refusal import Offer, amounts, reasons
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


def unmet(
    requests: Mapping[str, Mapping[str, float]], nodes: Sequence[Node], workers: Mapping[str, int] | None = None
) -> list[str]:
    """Return the arms that fit on none of the nodes, even when it is empty; nor, with several workers, on them all."""
    offers = [Offer(node.name, node.resources) for node in nodes]
    return [arm for arm, request in requests.items() if _room(request, offers, (workers or {}).get(arm, 1)) is not None]


def check(
    requests: Mapping[str, Mapping[str, float]],
    nodes: Sequence[Node],
    where: Callable[[Loc], str] = dotted,
    node_types: Sequence[NodeType] = (),
    advice: str = "",
    workers: Mapping[str, int] | None = None,
) -> None:
    """Check that every arm fits on some node when that node is empty, or on one that the cluster can add.

    Args:
        requests: arm name -> what it asks for.
        nodes: the machines there are.
        where: turns a key path into a place; pass ``YamlSource.where`` to name lines.
        node_types: what the cluster's autoscaler may add; one of which it may have none serves nobody.
        advice: what to do next where nothing better is known.
        workers: arm name -> how many share its trials, and what it asks for, in equal parts; they may be on several
            machines. 1 where none is given.

    Raises:
        UnmetPlacement: naming for every arm that fits nowhere the resource, what is offered, the nearest name, and what
            would fit on the machine that comes closest. What is offered stands in the first problem only.
    """
    offers = [Offer(node.name, node.resources) for node in nodes]
    offers += [Offer(f"node type {one.name} (up to {one.max_workers})", one.resources, one) for one in node_types]
    open_to_trials = [offer for offer in offers if offer.node_type is None or offer.node_type.max_workers]
    problems = []
    for arm, request in requests.items():
        many = (workers or {}).get(arm, 1)
        room = _room(request, open_to_trials, many)
        if room is None:
            continue
        if not room:
            problems += reasons(arm, each(request, many), offers, where, advice)
            continue
        place = where(("arms", arm, "workers"))
        found = f"asks for {many} workers, and there is room for {room} at once"
        listing = "; ".join(f"{offer.name}: {amounts(offer.resources)}" for offer in open_to_trials)
        problems.append(Problem(place, found, listing, "", advice or f"Write `workers: {room}`, or add machines."))
    if problems:
        raise UnmetPlacement(problems[0], *(replace(problem, allowed="") for problem in problems[1:]))


def _room(request: Mapping[str, float], offers: Sequence[Offer], workers: int) -> int | None:
    """Return how many of a trial's workers fit on the machines when they are empty; None if all do."""
    share = each(request, workers)
    room = 0
    for offer in offers:
        many = offer.node_type.max_workers if offer.node_type else 1
        room += many * min(
            (int(offer.resources.get(name, 0.0) / amount + 1e-9) for name, amount in share.items()), default=workers
        )
    return None if room >= workers else room


def each(request: Mapping[str, float], workers: int) -> dict[str, float]:
    """Return what each of a trial's workers asks for."""
    return {name: amount / workers for name, amount in request.items()}


def fits(request: Mapping[str, float], resources: Mapping[str, float]) -> bool:
    """Say whether a machine with these resources, when it is empty, can run what asks for so much."""
    return all(resources.get(name, 0.0) >= amount for name, amount in request.items())
