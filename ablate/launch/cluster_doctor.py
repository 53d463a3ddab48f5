"""What a cluster's nodes are, one by one, and which differences between them would be taken for a study's answer."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ablate.errors import Problem, UnmetPlacement
from ablate.launch.job_server import reach_jobs
from ablate.launch.placement import fits

PACKAGES = ("ablate", "torch", "numpy", "ray", "python")
"""What has to be the same wherever a trial may run. A build's suffix (2.13.0+cpu, 2.13.0+cu128) is not compared."""

PROBE = """
import importlib, json, platform, socket, sys
said, wrong = {"host": socket.gethostname()}, []
versions = {"python": platform.python_version(), "ray": sys.argv[1]}
for name in ("ablate", "torch", "numpy"):
    try:
        versions[name] = str(importlib.import_module(name).__version__)
    except Exception as error:
        wrong.append(f"{name} does not import: {error}")
if "torch" in versions:
    import torch
    said["capability"] = torch.backends.cpu.get_cpu_capability()
    if torch.cuda.is_available():
        said["gpu"] = ", ".join(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count()))
if "ablate" in versions:
    from ablate.trial.cpu import cpu_model
    from ablate.trial.nvml import driver_version
    said |= {"cpu": cpu_model(), "driver": driver_version()}
print(json.dumps({**said, "versions": versions, "wrong": wrong}))
"""
"""Run by each node's own interpreter in a process of its own, since Ray reuses its workers and torch would stay in one.

Its argument is Ray's version.
"""


@dataclass(frozen=True)
class NodeFacts:
    """One node.

    Attributes:
        host: its name.
        resources: cores, GPUs and tags that it offers.
        cpu: the processor's name.
        capability: the instruction set that torch uses there.
        gpu: names of its GPUs, as torch sees them; empty without any.
        driver: version of NVIDIA's driver; empty without one.
        versions: package -> version, ``python`` among them.
        wrong: what keeps it from running trials.
    """

    host: str
    resources: Mapping[str, float]
    cpu: str = ""
    capability: str = ""
    gpu: str = ""
    driver: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    wrong: tuple[str, ...] = ()


def ask(address: str) -> list[NodeFacts]:
    """Ask every live node of a cluster, through its head if the address is a dashboard's.

    Raises:
        UnmetPlacement: nothing answers at the address.
    """
    if address.startswith(("http://", "https://")):
        jobs = reach_jobs(address)
        from ablate.launch.ray_jobs import printed_json

        printed = jobs.ask(["doctor", "--json"], codes=(0, UnmetPlacement.exit_code))
        return [NodeFacts(**{**node, "wrong": tuple(node["wrong"])}) for node in printed_json(printed)["nodes"]]
    from ablate.launch.ray_cluster import ask_nodes

    return ask_nodes(address)


def facts_of(host: str, resources: Mapping[str, float], printed: str, error: str) -> NodeFacts:
    """Return what a node's probe printed, its own name for itself included; ``error`` says why there is nothing."""
    try:
        said = json.loads(printed.splitlines()[-1])
        return NodeFacts(**{"host": host, "resources": resources, **said, "wrong": tuple(said["wrong"])})
    except (ValueError, IndexError, KeyError, TypeError):
        return NodeFacts(host, resources, wrong=(error or f"its probe printed {printed[-200:]!r}",))


def problems(
    nodes: Sequence[NodeFacts], arms: Mapping[str, Mapping[str, float]] | None = None, where: str = "cluster"
) -> list[Problem]:
    """Return what would spoil a study on these nodes.

    Without arms every version has to be the same on all nodes. With arms, on all nodes that one arm may land on; and
    between arms only if each of them asks for a tag that begins with the package's name (``torch_2_12: 1``): then the
    version is what the study asks about.

    Args:
        nodes: the nodes.
        arms: arm -> resources it asks for, of the study that is to run there.
        where: names the cluster.
    """
    if arms is None:
        groups = {"": list(nodes)}
    else:
        groups = {arm: [node for node in nodes if fits(request, node.resources)] for arm, request in arms.items()}
    found = [
        Problem(
            f"{where}: {node.host}", wrong, advice="Install there what the other nodes have, from one list of pins."
        )
        for group in groups.values()
        for node in group
        for wrong in node.wrong
    ]
    for package in PACKAGES:
        within = [_differing(package, arm, group, where) for arm, group in groups.items()]
        found += [problem for problem in within if problem]
        if not any(within) and arms:
            found += _between(package, groups, arms, where)
    return list(dict.fromkeys(found))


def doctor_table(nodes: Sequence[NodeFacts]) -> RenderableType:
    """Return one row per node, and a line for each thing that is wrong on it."""
    table = Table(box=SIMPLE_HEAD)
    gpus = any(node.gpu or node.driver for node in nodes)
    for heading in ("node", "offers", "CPU", "capability", *(("GPU", "driver") if gpus else ()), *PACKAGES):
        table.add_column(heading, overflow="fold")
    for node in nodes:
        offers = ", ".join(f"{name} {amount:g}" for name, amount in sorted(node.resources.items())) or "nothing"
        row = [node.host, offers, node.cpu, node.capability]
        row += [node.gpu or "none", node.driver or "none"] if gpus else []
        table.add_row(*map(Text, row), *(Text(node.versions.get(package, "-")) for package in PACKAGES))
    return Group(table, *(Text(f"{node.host}: {wrong}") for node in nodes for wrong in node.wrong))


def to_json(nodes: Sequence[NodeFacts], found: Sequence[Problem]) -> dict[str, Any]:
    """Return everything, for scripts."""
    return {"nodes": [asdict(node) for node in nodes], "problems": [asdict(problem) for problem in found]}


def _versions(package: str, nodes: Sequence[NodeFacts]) -> dict[str, list[str]]:
    """Return version, without its build, -> hosts that have it."""
    hosts = defaultdict(list)
    for node in nodes:
        if package in node.versions:
            hosts[node.versions[package].partition("+")[0]].append(node.host)
    return dict(sorted(hosts.items()))


def _listed(hosts: Mapping[str, Sequence[str]]) -> str:
    return "; ".join(f"{version} on {', '.join(names)}" for version, names in hosts.items())


def _differing(package: str, arm: str, nodes: Sequence[NodeFacts], where: str) -> Problem | None:
    hosts = _versions(package, nodes)
    if len(hosts) < 2:
        return None
    if arm:
        found = f"trials of arm {arm} could land on nodes whose {package} differs: {_listed(hosts)}"
        advice = f"Install one version, or let the arm ask for a tag of the nodes with one ({_tag(package, hosts)}: 1)."
    else:
        found = f"{package} differs between nodes: {_listed(hosts)}"
        advice = (
            f"Install one version. If it is what a study asks about, tag the nodes ({_tag(package, hosts)}), "
            "let its arms ask for the tags, and name it: --grid GRID."
        )
    return Problem(where, found, advice=advice)


def _between(
    package: str,
    groups: Mapping[str, Sequence[NodeFacts]],
    arms: Mapping[str, Mapping[str, float]],
    where: str,
) -> list[Problem]:
    by_version: dict[str, list[str]] = defaultdict(list)
    for arm, nodes in groups.items():
        for version in _versions(package, nodes):
            by_version[version].append(arm)
    silent = [arm for arm in arms if not any(name.startswith(f"{package}_") for name in arms[arm])]
    if len(by_version) < 2 or not silent:
        return []
    by_version = dict(sorted(by_version.items()))
    listed = "; ".join(f"{version} for {', '.join(names)}" for version, names in by_version.items())
    found = f"arms would run under different {package}: {listed}; the study's answer would be about that too"
    advice = (
        f"Install one version. If it is what the study asks about, each arm asks for a tag that says so "
        f"({_tag(package, by_version)}: 1), which these do not: {', '.join(silent)}."
    )
    return [Problem(where, found, advice=advice)]


def _tag(package: str, versions: Mapping[str, object]) -> str:
    return f"{package}_{next(iter(versions)).replace('.', '_')}"
