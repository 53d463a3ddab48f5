"""Which machine can run which arm: checked before anything starts, since Ray lets a hopeless request wait for ever."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ablate.design.yaml_source import Loc, dotted
from ablate.errors import BadInput, Problem, UnmetPlacement, nearest
from ablate.trial.nvml import visible_gpus

NO_FALLBACK = (
    "An arm with `device: cuda` never runs on the CPU instead: launch where nvidia-smi lists a GPU, or remove the arm."
)


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


def check(
    requests: Mapping[str, Mapping[str, float]], nodes: Sequence[Node], where: Callable[[Loc], str] = dotted
) -> None:
    """Check that every arm fits on some node when that node is empty.

    Args:
        requests: arm name -> what it asks for.
        nodes: the machines there are.
        where: turns a key path into a place; pass ``YamlSource.where`` to name lines.

    Raises:
        UnmetPlacement: naming for every arm that fits nowhere the resource, what is offered, and the nearest name.
    """
    problems = [
        problem
        for arm, request in requests.items()
        if not any(_fits(request, node) for node in nodes)
        for problem in _reasons(arm, request, nodes, where)
    ]
    if problems:
        raise UnmetPlacement(*problems)


def _fits(request: Mapping[str, float], node: Node) -> bool:
    return all(node.resources.get(name, 0.0) >= amount for name, amount in request.items())


def _reasons(
    arm: str, request: Mapping[str, float], nodes: Sequence[Node], where: Callable[[Loc], str]
) -> list[Problem]:
    offered = {name for node in nodes for name in node.resources}
    listing = "; ".join(f"{node.name}: " + ", ".join(f"{k} {v:g}" for k, v in node.resources.items()) for node in nodes)
    reasons = []
    for name, amount in request.items():
        most = max((node.resources.get(name, 0.0) for node in nodes), default=0.0)
        if most < amount:
            found = f"asks for {name}: {amount:g}, " + (
                f"the most on one node is {most:g}" if most else "no node offers it"
            )
            close = nearest(name, offered) if name not in offered and name != "GPU" else ""  # a CPU is none
            advice = NO_FALLBACK if name == "GPU" and not most else ""
            reasons.append(Problem(where(("arms", arm, "resources", name)), found, listing, close, advice))
    together = ", ".join(f"{name} {amount:g}" for name, amount in request.items())
    return reasons or [
        Problem(
            where(("arms", arm, "resources")), f"asks for {together} on one node; no node offers all of it", listing
        )
    ]
