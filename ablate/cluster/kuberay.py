"""The groups of a KubeRay manifest, read as Ray's autoscaler derives its node types from them."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from ablate.cluster.cluster_file import ClusterFile
from ablate.cluster.parts import find, mapping, whole
from ablate.design.yaml_source import Loc
from ablate.errors import BadInput, Problem

HEAD = "headgroup"
"""What KubeRay calls the head's group."""

RESOURCES_EXAMPLE = 'resources: \'"{\\"gpu_t4\\": 1}"\''
"""How custom resources are quoted: KubeRay passes the text to a shell."""

IDLE_SECONDS: Loc = ("spec", "autoscalerOptions", "idleTimeoutSeconds")
"""How long a pod stays without work."""

_CPU = re.compile(r"(\d+(?:\.\d+)?)(m?)")


def groups(file: ClusterFile) -> list[tuple[str, dict[str, float], int, int, bool]]:
    """Return each group's name, what one pod offers, fewest and most pods, and whether it is the head's; head first.

    Raises:
        BadInput: a group lacks something, or what it says cannot be read.
    """
    problems: list[Problem] = []
    spec = mapping(file, ("spec",), problems, "headGroupSpec and workerGroupSpecs")
    found = [(HEAD, _offered(file, ("spec", "headGroupSpec"), problems), 0, 0, True)]
    workers = spec.get("workerGroupSpecs")
    if not isinstance(workers, list):
        problems.append(file.problem(("spec", "workerGroupSpecs"), "missing or no list", "a list of groups"))
        workers = []
    for position, group in enumerate(workers):
        here: Loc = ("spec", "workerGroupSpecs", position)
        name = group.get("groupName") if isinstance(group, dict) else None
        if not isinstance(name, str):
            problems.append(file.problem((*here, "groupName"), "missing or no text", "the group's name"))
            continue
        pods = whole(file, (*here, "numOfHosts"), problems, default=1)
        least = whole(file, (*here, "minReplicas"), problems) * pods
        most = whole(file, (*here, "maxReplicas"), problems) * pods
        found.append((name, _offered(file, here, problems), least, most, False))
    if problems:
        raise BadInput(*problems)
    return found


def _offered(file: ClusterFile, here: Loc, problems: list[Problem]) -> dict[str, float]:
    """Return a group's resources: its ``resources`` if it has them, else its start parameters and container."""
    if not find(file, (*here, "resources")):
        return _from_start(file, here, problems, custom=True)
    own: Loc = (*here, "resources")
    amounts = {key: value for key, value in mapping(file, own, problems, "amounts").items() if key != "memory"}
    offered = {key: _count(file, (*own, key), value, problems) for key, value in amounts.items()}
    return _from_start(file, here, problems, custom=False) | offered if "CPU" not in offered else offered


def _from_start(file: ClusterFile, here: Loc, problems: list[Problem], custom: bool) -> dict[str, float]:
    start: Loc = (*here, "rayStartParams")
    container: Loc = (*here, "template", "spec", "containers", 0, "resources")
    asked = {**(find(file, (*container, "requests")) or {}), **(find(file, (*container, "limits")) or {})}
    offered: dict[str, float] = {}
    given = find(file, (*start, "num-cpus"))
    if given is None and "cpu" not in asked:
        advice = "set num-cpus there, or the container's limits.cpu; Ray's autoscaler stops without"
        problems.append(file.problem(start, "no number of CPUs", advice=advice))
    else:
        offered["CPU"] = _count(file, (*start, "num-cpus"), asked.get("cpu") if given is None else given, problems)
    gpus = find(file, (*start, "num-gpus"))
    if gpus is None:
        gpus = next((amount for key, amount in asked.items() if key.endswith("gpu")), 0)
    if number := _count(file, (*start, "num-gpus"), gpus, problems):
        offered["GPU"] = number
    return offered | (_custom(file, (*start, "resources"), problems) if custom else {})


def _custom(file: ClusterFile, loc: Loc, problems: list[Problem]) -> dict[str, float]:
    text = find(file, loc)
    if text is None:
        return {}
    try:
        amounts = json.loads(str(text)[1:-1].replace("\\", ""))  # as Ray unquotes it
        if isinstance(amounts, dict) and all(type(amount) is int for amount in amounts.values()):
            return {name: float(amount) for name, amount in amounts.items()}
    except ValueError:
        pass
    problems.append(file.problem(loc, f"{text!r} cannot be read by Ray's autoscaler", RESOURCES_EXAMPLE))
    return {}


def _count(file: ClusterFile, loc: Loc, value: Any, problems: list[Problem]) -> float:
    """Return a Kubernetes quantity of cores or devices, rounded up as Ray does it."""
    match = _CPU.fullmatch(str(value))
    if match is None or isinstance(value, bool):
        problems.append(file.problem(loc, f"{value!r} is no amount", 'a number such as 4, "4" or 500m'))
        return 0.0
    number, milli = match.groups()
    return float(math.ceil(float(number) / (1000 if milli else 1)))
